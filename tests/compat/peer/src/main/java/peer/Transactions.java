package peer;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.processor.EndTransactionProcessor;
import org.apache.rocketmq.broker.transaction.queue.DefaultTransactionalMessageCheckListener;
import org.apache.rocketmq.broker.transaction.queue.TransactionalMessageBridge;
import org.apache.rocketmq.broker.transaction.queue.TransactionalMessageServiceImpl;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.protocol.RequestCode;
import org.apache.rocketmq.common.protocol.header.EndTransactionRequestHeader;
import org.apache.rocketmq.common.sysflag.MessageSysFlag;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.MessageExtBrokerInner;
import org.apache.rocketmq.store.PutMessageResult;

/** Transactions by the broker's own classes over the store, without a broker around them. */
class Transactions {
    private final DefaultMessageStore store;
    private final BrokerController controller;
    private final TransactionalMessageServiceImpl service;
    private final List<PutMessageResult> prepared = new ArrayList<>();
    private final List<String> groups = new ArrayList<>();

    private Transactions(DefaultMessageStore store) throws Exception {
        this.store = store;
        BrokerConfig broker = new BrokerConfig();
        broker.setBrokerIP1("127.0.0.1");
        NettyServerConfig server = new NettyServerConfig();
        server.setListenPort(10911);
        controller = new BrokerController(broker, server, new NettyClientConfig(), store.getMessageStoreConfig());
        controller.setMessageStore(store);
        service = new TransactionalMessageServiceImpl(new TransactionalMessageBridge(controller, store));
        controller.setTransactionalMessageService(service);
    }

    static void transact(String dir, Map<String, String> options) throws Exception {
        DefaultMessageStore store = Peer.open(dir, options);
        Transactions transactions = new Transactions(store);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            transactions.run(JSON.parseObject(line));
            Peer.awaitDispatched(store);
        }
        store.shutdown();
    }

    private void run(JSONObject o) throws Exception {
        if (o.containsKey("sleep")) {
            Thread.sleep(o.getLongValue("sleep"));
        } else if (o.containsKey("commit")) {
            PutMessageResult half = prepared.get(o.getIntValue("commit"));
            end(half.getAppendMessageResult().getWroteOffset(), half.getAppendMessageResult().getLogicsOffset(),
                groups.get(o.getIntValue("commit")), true);
        } else if (o.containsKey("rollback")) {
            PutMessageResult half = prepared.get(o.getIntValue("rollback"));
            service.deletePrepareMessage(store.lookMessageByOffset(half.getAppendMessageResult().getWroteOffset()));
        } else if (o.containsKey("check")) {
            check(o);
        } else {
            prepare(o);
        }
    }

    private void prepare(JSONObject o) {
        MessageExtBrokerInner message = Peer.inner(o);
        MessageAccessor.putProperty(message, MessageConst.PROPERTY_TRANSACTION_PREPARED, "true");
        MessageAccessor.putProperty(message, MessageConst.PROPERTY_PRODUCER_GROUP, o.getString("group"));
        PutMessageResult result = service.prepareMessage(message);
        prepared.add(result);
        groups.add(o.getString("group"));
        JSONObject r = new JSONObject(true);
        r.put("commitLogOffset", result.getAppendMessageResult().getWroteOffset());
        r.put("queueOffset", result.getAppendMessageResult().getLogicsOffset());
        Peer.print(r);
    }

    private void end(long commitLogOffset, long queueOffset, String group, boolean commit) throws Exception {
        EndTransactionRequestHeader header = new EndTransactionRequestHeader();
        header.setProducerGroup(group);
        header.setTranStateTableOffset(queueOffset);
        header.setCommitLogOffset(commitLogOffset);
        header.setCommitOrRollback(commit ? MessageSysFlag.TRANSACTION_COMMIT_TYPE : MessageSysFlag.TRANSACTION_ROLLBACK_TYPE);
        header.setFromTransactionCheck(false);
        header.setMsgId("");
        header.setTransactionId("");
        RemotingCommand request = RemotingCommand.createRequestCommand(RequestCode.END_TRANSACTION, header);
        request.makeCustomHeaderToNet();
        RemotingCommand response = new EndTransactionProcessor(controller).processRequest(null, request);
        if (response.getCode() != 0) {
            throw new IllegalStateException(response.getRemark());
        }
    }

    private void check(JSONObject o) throws Exception {
        JSONArray states = o.getJSONArray("check");
        List<MessageExt> asked = new ArrayList<>();
        DefaultTransactionalMessageCheckListener listener = new DefaultTransactionalMessageCheckListener() {
            @Override
            public void resolveHalfMsg(MessageExt message) {
                asked.add(message);
            }
        };
        listener.setBrokerController(controller);
        service.check(o.getLongValue("timeout"), o.getIntValue("checkMax"), listener);
        Peer.awaitDispatched(store);
        for (int i = 0; i < asked.size(); i++) {
            MessageExt message = asked.get(i);
            JSONObject r = new JSONObject(true);
            r.put("asked", message.getQueueOffset());
            Peer.print(r);
            if (states.getString(i).equals("COMMIT_MESSAGE")) {
                end(message.getCommitLogOffset(), message.getQueueOffset(), message.getProperty(MessageConst.PROPERTY_PRODUCER_GROUP), true);
            } else if (states.getString(i).equals("ROLLBACK_MESSAGE")) {
                service.deletePrepareMessage(store.lookMessageByOffset(message.getCommitLogOffset()));
            }
        }
    }
}
