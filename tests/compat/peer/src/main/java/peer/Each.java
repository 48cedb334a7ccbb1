package peer;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.rocketmq.store.DefaultMessageStore;

/**
 * Many stores in one JVM, some at a time, since opening and closing one is mostly waiting. A line in is
 * {"store": name below DIR, "options": {...}, "queries": [...]}; a line out is {"dump": [...], "answers": [...]}, or
 * {"refused": why} where the store does not open or hangs. An answer is {"failed": why} where asking ended with an
 * exception.
 */
class Each {
    private static final int AT_ONCE = 16;
    private static final int TIMEOUT_S = 60;

    static void run(String dir) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        ExecutorService pool = Executors.newFixedThreadPool(AT_ONCE);
        List<Future<JSONObject>> answers = new ArrayList<>();
        for (String line; (line = in.readLine()) != null; ) {
            JSONObject asked = JSON.parseObject(line);
            answers.add(pool.submit(() -> ask(dir, asked)));
        }
        for (Future<JSONObject> answer : answers) {
            Peer.print(waitFor(answer));
        }
    }

    /** A store whose dispatch does not get on is never open. */
    private static JSONObject waitFor(Future<JSONObject> answer) throws Exception {
        try {
            return answer.get(TIMEOUT_S, TimeUnit.SECONDS);
        } catch (TimeoutException e) {
            return new JSONObject(Map.of("refused", "hangs"));
        }
    }

    private static JSONObject ask(String dir, JSONObject asked) throws Exception {
        JSONObject found = new JSONObject(true);
        Map<String, String> options = new TreeMap<>();
        asked.getJSONObject("options").forEach((name, value) -> options.put(name, value.toString()));
        DefaultMessageStore store;
        try {
            store = Peer.open(dir + File.separator + asked.getString("store"), options);
        } catch (Exception e) {
            found.put("refused", e.toString());
            return found;
        }
        JSONArray dump = new JSONArray();
        JSONArray answers = new JSONArray();
        Peer.dump(store, dump::add);
        for (Object query : asked.getJSONArray("queries")) {
            answers.add(answer(store, (JSONObject) query));
        }
        store.shutdown();
        found.put("dump", dump);
        found.put("answers", answers);
        return found;
    }

    /** What a store cannot answer is no reason to stop asking the others. */
    private static Object answer(DefaultMessageStore store, JSONObject query) throws Exception {
        try {
            return Peer.answer(store, query);
        } catch (RuntimeException e) {
            return new JSONObject(Map.of("failed", e.toString()));
        }
    }
}
