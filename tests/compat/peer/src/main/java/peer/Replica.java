package peer;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.net.ServerSocket;
import java.nio.channels.ServerSocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.ha.HAService;

/**
 * The reference store as a master or as a slave. Both keep running until their input ends, print
 * {"maxPhyOffset", "dispatchedOffset"} whenever one of them has moved, and close the store then.
 */
final class Replica {
    private static final int WATCH_INTERVAL_MS = 5;

    private Replica() {
    }

    static void master(String dir, Map<String, String> options) throws Exception {
        DefaultMessageStore store = Peer.open(dir, options);
        JSONObject listening = new JSONObject(true);
        listening.put("haListenPort", listenPort(store.getHaService()));
        Peer.print(listening);
        Thread watcher = watch(store);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            if (!line.isBlank()) {
                Peer.print(Peer.putOne(store, JSON.parseObject(line)));
            }
        }
        Peer.awaitDispatched(store);
        end(store, watcher);
    }

    static void slave(String dir, Map<String, String> options) throws Exception {
        DefaultMessageStore store = Peer.open(dir, options);
        store.updateHaMasterAddress(options.get("haMasterAddress"));
        Thread watcher = watch(store);
        while (System.in.read() >= 0) {
            continue;
        }
        end(store, watcher);
    }

    private static int listenPort(HAService service) throws Exception {
        Field accepting = HAService.class.getDeclaredField("acceptSocketService");
        accepting.setAccessible(true);
        Field channel = accepting.getType().getDeclaredField("serverSocketChannel");
        channel.setAccessible(true);
        ServerSocket socket = ((ServerSocketChannel) channel.get(accepting.get(service))).socket();
        return socket.getLocalPort();
    }

    private static Thread watch(DefaultMessageStore store) {
        Thread watcher = new Thread(() -> {
            long max = -1;
            long dispatched = -1;
            try {
                while (true) {
                    long behind = store.dispatchBehindBytes();
                    long nowMax = store.getMaxPhyOffset();
                    if (nowMax != max || nowMax - behind != dispatched) {
                        max = nowMax;
                        dispatched = nowMax - behind;
                        JSONObject r = new JSONObject(true);
                        r.put("maxPhyOffset", max);
                        r.put("dispatchedOffset", dispatched);
                        Peer.print(r);
                    }
                    Thread.sleep(WATCH_INTERVAL_MS);
                }
            } catch (InterruptedException e) {
                // The store is about to be closed.
            }
        });
        watcher.setDaemon(true);
        watcher.start();
        return watcher;
    }

    private static void end(DefaultMessageStore store, Thread watcher) throws Exception {
        watcher.interrupt();
        watcher.join();
        store.shutdown();
    }
}
