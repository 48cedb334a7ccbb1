package peer;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.ConfigManager;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.schedule.ScheduleMessageService;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/**
 * The configuration files under DIR/config, by the broker's own managers.
 *
 * config-write DIR   each line changes a manager: {"topic":{..}}, {"group":{..}}, {"offset":{group,
 *                    topic, queueId, offset}}, {"filter":{topic, group, expression, version}},
 *                    {"delay":{level, offset}}; at the end all are persisted as the broker does it
 * config-read DIR    loads all, prints one line each: manager, whether it loaded, what it holds
 */
class ConfigFiles {
    private final BrokerController broker;
    private final ScheduleMessageService schedule;

    ConfigFiles(String dir) throws Exception {
        MessageStoreConfig config = new MessageStoreConfig();
        config.setStorePathRootDir(dir);
        NettyServerConfig server = new NettyServerConfig();
        server.setListenPort(0);
        this.broker = new BrokerController(new BrokerConfig(), server, new NettyClientConfig(), config);
        MessageStoreConfig scratch = new MessageStoreConfig();
        scratch.setStorePathRootDir(dir);
        this.schedule = new ScheduleMessageService(new DefaultMessageStore(
            scratch, new BrokerStatsManager("peer", true), null, new BrokerConfig()));
    }

    private ConfigManager[] managers() {
        return new ConfigManager[] {broker.getTopicConfigManager(), broker.getSubscriptionGroupManager(),
            broker.getConsumerOffsetManager(), broker.getConsumerFilterManager(), schedule};
    }

    static void write(String dir) throws Exception {
        ConfigFiles files = new ConfigFiles(dir);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            files.apply(JSON.parseObject(line));
        }
        for (ConfigManager manager : files.managers()) {
            manager.persist();
        }
    }

    private void apply(JSONObject o) throws Exception {
        if (o.containsKey("topic")) {
            broker.getTopicConfigManager().updateTopicConfig(o.getObject("topic", TopicConfig.class));
        } else if (o.containsKey("group")) {
            broker.getSubscriptionGroupManager().updateSubscriptionGroupConfig(o.getObject("group", SubscriptionGroupConfig.class));
        } else if (o.containsKey("offset")) {
            JSONObject of = o.getJSONObject("offset");
            broker.getConsumerOffsetManager().commitOffset("peer", of.getString("group"), of.getString("topic"),
                of.getIntValue("queueId"), of.getLongValue("offset"));
        } else if (o.containsKey("filter")) {
            JSONObject f = o.getJSONObject("filter");
            broker.getConsumerFilterManager().register(f.getString("topic"), f.getString("group"),
                f.getString("expression"), "SQL92", f.getLongValue("version"));
        } else {
            JSONObject d = o.getJSONObject("delay");
            Method update = ScheduleMessageService.class.getDeclaredMethod("updateOffset", int.class, long.class);
            update.setAccessible(true);
            update.invoke(schedule, d.getIntValue("level"), d.getLongValue("offset"));
        }
    }

    static void read(String dir) throws Exception {
        ConfigFiles files = new ConfigFiles(dir);
        for (ConfigManager manager : files.managers()) {
            JSONObject r = new JSONObject(true);
            r.put("manager", manager.getClass().getSimpleName());
            r.put("loaded", manager.load());
            r.put("holds", manager.encode(false));
            Peer.print(r);
        }
    }
}
