import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.store.CommitLog;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/** RocketMQ 5's store, as far as the checksum of a whole record goes. */
public final class Peer5 {
    private static final int MESSAGE_MAGIC_CODE = 0xDAA320A7;

    public static void main(String[] args) throws Exception {
        if (args[0].equals("put")) {
            put(args[1], Integer.parseInt(args[2]), Arrays.copyOfRange(args, 3, args.length));
        } else {
            check(args[1], Arrays.copyOfRange(args, 2, args.length));
        }
        System.exit(0);
    }

    private static DefaultMessageStore store(String root, String... options) throws Exception {
        MessageStoreConfig config = new MessageStoreConfig();
        Properties given = new Properties();
        for (String option : options) {
            String[] pair = option.split("=", 2);
            given.setProperty(pair[0], pair[1]);
        }
        MixAll.properties2Object(given, config);
        config.setStorePathRootDir(root);
        config.setStorePathCommitLog(root + "/commitlog");
        config.setEnabledAppendPropCRC(true);
        config.setForceVerifyPropCRC(true);
        config.setTimerWheelEnable(false);
        config.setHaListenPort(0);
        return new DefaultMessageStore(
            config, new BrokerStatsManager("peer", true), null, new BrokerConfig(), new ConcurrentHashMap<>());
    }

    private static void put(String root, int count, String[] options) throws Exception {
        DefaultMessageStore store = store(root, options);
        if (!store.load()) {
            throw new IllegalStateException("load failed: " + root);
        }
        store.start();
        for (int number = 0; number < count; number++) {
            MessageExtBrokerInner message = new MessageExtBrokerInner();
            message.setTopic("t");
            message.setBody(("body " + number).getBytes());
            message.setKeys("k" + number);
            message.setTags("a");
            message.setBornTimestamp(1_700_000_000_000L);
            message.setBornHost(new InetSocketAddress("127.0.0.1", 10911));
            message.setStoreHost(new InetSocketAddress("127.0.0.1", 10911));
            message.setPropertiesString(MessageDecoder.messageProperties2String(message.getProperties()));
            System.out.println(store.putMessage(message).getPutMessageStatus());
        }
        store.shutdown();
    }

    /** A line of counts: records, those it does not take, flipped bits, those that it does not see. */
    private static void check(String root, String[] files) throws Exception {
        CommitLog log = store(root).getCommitLog();
        int records = 0;
        int refused = 0;
        int flips = 0;
        int missed = 0;
        for (String file : files) {
            byte[] content = Files.readAllBytes(Path.of(file));
            ByteBuffer all = ByteBuffer.wrap(content);
            for (int at = 0; at + 8 <= content.length && all.getInt(at + 4) == MESSAGE_MAGIC_CODE; at += all.getInt(at)) {
                byte[] record = Arrays.copyOfRange(content, at, at + all.getInt(at));
                records++;
                refused += isTaken(log, record) ? 0 : 1;
                for (int place = 0; place < record.length; place++) {
                    record[place] ^= 1 << place % 8;
                    flips++;
                    missed += isTaken(log, record) ? 1 : 0;
                    record[place] ^= 1 << place % 8;
                }
            }
        }
        System.out.println(records + " " + refused + " " + flips + " " + missed);
    }

    private static boolean isTaken(CommitLog log, byte[] record) {
        return log.checkMessageAndReturnSize(ByteBuffer.wrap(record), true, false, true).isSuccess();
    }
}
