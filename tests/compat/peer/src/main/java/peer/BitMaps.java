package peer;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.filter.CommitLogDispatcherCalcBitMap;
import org.apache.rocketmq.broker.filter.ConsumerFilterManager;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.store.DefaultMessageStore;

/**
 * bit-maps DIR k=v...   each line is a message to put, or {"filter":{topic, group, expression, version}} to register:
 *                       the broker's dispatcher calculates the bit maps; at the end the filters are persisted
 */
class BitMaps {
    static void run(String dir, Map<String, String> options) throws Exception {
        DefaultMessageStore store = Peer.open(dir, options);
        BrokerConfig broker = new BrokerConfig();
        broker.setEnableCalcFilterBitMap(true);
        NettyServerConfig server = new NettyServerConfig();
        server.setListenPort(10911);
        BrokerController controller = new BrokerController(broker, server, new NettyClientConfig(), store.getMessageStoreConfig());
        ConsumerFilterManager filters = controller.getConsumerFilterManager();
        store.getDispatcherList().addFirst(new CommitLogDispatcherCalcBitMap(broker, filters));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            JSONObject o = JSON.parseObject(line);
            if (o.containsKey("filter")) {
                Peer.awaitDispatched(store);
                JSONObject f = o.getJSONObject("filter");
                filters.register(f.getString("topic"), f.getString("group"), f.getString("expression"), "SQL92",
                    f.getLongValue("version"));
            } else {
                store.putMessage(Peer.inner(o));
            }
        }
        Peer.awaitDispatched(store);
        filters.persist();
        store.shutdown();
    }
}
