package peer;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.HashMap;
import org.apache.rocketmq.broker.filter.MessageEvaluationContext;
import org.apache.rocketmq.common.filter.ExpressionType;
import org.apache.rocketmq.filter.FilterFactory;
import org.apache.rocketmq.filter.expression.Expression;

/**
 * filter DIR   each line is {"expression":"..","properties":[{..},..]}; prints for each what the broker's
 *              filter makes of it: null where it does not compile, otherwise whether each passes
 */
class Filters {
    static void run() throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            JSONObject o = JSON.parseObject(line);
            Expression compiled;
            try {
                compiled = FilterFactory.INSTANCE.get(ExpressionType.SQL92).compile(o.getString("expression"));
            } catch (Throwable e) {
                Peer.print(null);
                continue;
            }
            boolean[] passes = new boolean[o.getJSONArray("properties").size()];
            for (int i = 0; i < passes.length; i++) {
                Map<String, String> properties = new HashMap<>();
                for (Map.Entry<String, Object> e : o.getJSONArray("properties").getJSONObject(i).entrySet()) {
                    properties.put(e.getKey(), e.getValue().toString());
                }
                Object ret = null;
                try {
                    ret = compiled.evaluate(new MessageEvaluationContext(properties));
                } catch (Throwable e) {
                    ret = null;
                }
                passes[i] = ret instanceof Boolean && (Boolean) ret;
            }
            Peer.print(passes);
        }
    }
}
