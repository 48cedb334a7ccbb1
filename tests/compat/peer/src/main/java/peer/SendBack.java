package peer;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.processor.SendMessageProcessor;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.MQVersion;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.protocol.RequestCode;
import org.apache.rocketmq.common.protocol.header.ConsumerSendMsgBackRequestHeader;
import org.apache.rocketmq.common.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.MessageExtBrokerInner;

/**
 * send-back DIR k=v...   each line is a message to put ("withoutWait": true takes its WAIT away), {"group":{..}} to change a group, or {"back":{offset, group,
 *                        delayLevel, maxReconsumeTimes}}: a consumer's message that was not consumed, given to the
 *                        broker's own processor
 */
class SendBack {
    static void run(String dir, Map<String, String> options) throws Exception {
        DefaultMessageStore store = Peer.open(dir, options);
        BrokerConfig broker = new BrokerConfig();
        broker.setBrokerIP1("127.0.0.1");
        NettyServerConfig server = new NettyServerConfig();
        server.setListenPort(10911);
        BrokerController controller = new BrokerController(broker, server, new NettyClientConfig(), store.getMessageStoreConfig());
        controller.setMessageStore(store);
        SendMessageProcessor processor = new SendMessageProcessor(controller);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            JSONObject o = JSON.parseObject(line);
            if (o.containsKey("group")) {
                controller.getSubscriptionGroupManager().updateSubscriptionGroupConfig(o.getObject("group", SubscriptionGroupConfig.class));
            } else if (o.containsKey("back")) {
                back(processor, o.getJSONObject("back"));
            } else {
                MessageExtBrokerInner message = Peer.inner(o);
                if (o.getBooleanValue("withoutWait")) {
                    MessageAccessor.clearProperty(message, MessageConst.PROPERTY_WAIT_STORE_MSG_OK);
                    message.setPropertiesString(MessageDecoder.messageProperties2String(message.getProperties()));
                }
                store.putMessage(message);
            }
        }
        Peer.awaitDispatched(store);
        store.shutdown();
    }

    private static void back(SendMessageProcessor processor, JSONObject o) throws Exception {
        ConsumerSendMsgBackRequestHeader header = new ConsumerSendMsgBackRequestHeader();
        header.setOffset(o.getLong("offset"));
        header.setGroup(o.getString("group"));
        header.setDelayLevel(o.getInteger("delayLevel"));
        header.setMaxReconsumeTimes(o.getInteger("maxReconsumeTimes"));
        RemotingCommand request = RemotingCommand.createRequestCommand(RequestCode.CONSUMER_SEND_MSG_BACK, header);
        request.setVersion(MQVersion.CURRENT_VERSION);
        request.makeCustomHeaderToNet();
        RemotingCommand response = processor.asyncProcessRequest(null, request).get();
        JSONObject r = new JSONObject(true);
        r.put("code", response.getCode());
        r.put("remark", response.getRemark());
        Peer.print(r);
    }
}
