package peer;

import com.alibaba.fastjson.JSONObject;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.common.TopicFilterType;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageExtBatch;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.MessageExtBrokerInner;
import org.apache.rocketmq.store.QueryMessageResult;

/**
 * Times put, dispatch, get, index and time look-ups, and prints one JSON object. With bench.rate the puts come
 * at that rate, and the time that they take is looked at instead of their number.
 */
class Bench {
    static int option(Map<String, String> options, String key, int otherwise) {
        return options.containsKey("bench." + key) ? Integer.parseInt(options.get("bench." + key)) : otherwise;
    }

    static void run(String dir, Map<String, String> options) throws Exception {
        int count = option(options, "messages", 200_000);
        int bodySize = option(options, "body", 1024);
        int queueCount = option(options, "queues", 8);
        int threads = option(options, "threads", 1);
        int batch = option(options, "batch", 1);
        int lookups = option(options, "lookups", 100_000);
        int warm = option(options, "warm", 50_000);
        int rate = option(options, "rate", 0);
        DefaultMessageStore store = Peer.open(dir, options);
        load(store, "warm", warm, bodySize, queueCount, threads, batch);
        Peer.awaitDispatched(store);
        read(store, "warm", queueCount);
        lookup(store, "warm", Math.max(1, warm), queueCount, lookups / 10);

        JSONObject r = new JSONObject(true);
        r.put("messages", count);
        r.put("body", bodySize);
        r.put("queues", queueCount);
        r.put("threads", threads);
        r.put("batch", batch);
        long t0 = System.nanoTime();
        if (rate > 0) {
            r.put("put_latency_p999_us", paced(store, "bench", count, bodySize, queueCount, rate));
        } else {
            load(store, "bench", count, bodySize, queueCount, threads, batch);
        }
        long t1 = System.nanoTime();
        Peer.awaitDispatched(store);
        long t2 = System.nanoTime();
        r.put("put_per_s", count / ((t1 - t0) / 1e9));
        r.put("put_and_dispatch_per_s", count / ((t2 - t0) / 1e9));
        for (int i = 0; i < 3; i++) {
            long t3 = System.nanoTime();
            long n = read(store, "bench", queueCount);
            r.put("get_per_s", Math.max(r.getDoubleValue("get_per_s"), n / ((System.nanoTime() - t3) / 1e9)));
            t3 = System.nanoTime();
            n = readDecoded(store, "bench", queueCount);
            r.put("get_decoded_per_s", Math.max(r.getDoubleValue("get_decoded_per_s"), n / ((System.nanoTime() - t3) / 1e9)));
        }
        r.putAll(lookup(store, "bench", count, queueCount, lookups));
        r.put("resident_anonymous_bytes", residentAnonymous());
        if ("true".equals(options.get("crash"))) {
            Peer.print(r);
            Peer.out.flush();
            Runtime.getRuntime().halt(0);
        }
        long t4 = System.nanoTime();
        store.shutdown();
        r.put("shutdown_s", (System.nanoTime() - t4) / 1e9);
        Peer.print(r);
    }

    static void load(DefaultMessageStore store, String topic, int count, int bodySize, int queueCount, int threads, int batch) throws Exception {
        byte[] body = new byte[bodySize];
        new Random(7).nextBytes(body);
        CountDownLatch done = new CountDownLatch(threads);
        for (int t = 0; t < threads; t++) {
            final int first = t;
            Thread thread = new Thread(() -> {
                try {
                    InetSocketAddress born = new InetSocketAddress("127.0.0.1", 50000);
                    InetSocketAddress host = new InetSocketAddress("127.0.0.1", 10911);
                    if (batch > 1) {
                        for (int i = first * batch; i < count; i += threads * batch) {
                            List<Message> messages = new ArrayList<>(batch);
                            for (int j = i; j < Math.min(count, i + batch); j++) {
                                Message m = new Message(topic, "TagA", "key" + j, body);
                                messages.add(m);
                            }
                            MessageExtBatch b = new MessageExtBatch();
                            b.setTopic(topic);
                            b.setQueueId((i / batch) % queueCount);
                            b.setBornTimestamp(System.currentTimeMillis());
                            b.setBornHost(born);
                            b.setStoreHost(host);
                            b.setBody(MessageDecoder.encodeMessages(messages));
                            if (!store.putMessages(b).isOk()) {
                                throw new IllegalStateException("put failed");
                            }
                        }
                    } else {
                        for (int i = first; i < count; i += threads) {
                            put(store, topic, body, i, queueCount, born, host);
                        }
                    }
                } catch (Throwable e) {
                    e.printStackTrace();
                    Runtime.getRuntime().halt(1);
                } finally {
                    done.countDown();
                }
            });
            thread.start();
        }
        done.await();
    }

    static long read(DefaultMessageStore store, String topic, int queueCount) {
        long n = 0;
        long sum = 0;
        for (int q = 0; q < queueCount; q++) {
            long offset = 0;
            while (true) {
                GetMessageResult g = store.getMessage("group", topic, q, offset, 32, null);
                if (g.getMessageCount() == 0) {
                    g.release();
                    break;
                }
                n += g.getMessageCount();
                for (ByteBuffer b : g.getMessageBufferList()) {
                    sum += b.getInt(0);
                }
                offset = g.getNextBeginOffset();
                g.release();
            }
        }
        if (sum == 0 && n > 0) {
            throw new IllegalStateException();
        }
        return n;
    }

    static long readDecoded(DefaultMessageStore store, String topic, int queueCount) {
        long n = 0;
        for (int q = 0; q < queueCount; q++) {
            long offset = 0;
            while (true) {
                GetMessageResult g = store.getMessage("group", topic, q, offset, 32, null);
                if (g.getMessageCount() == 0) {
                    g.release();
                    break;
                }
                for (ByteBuffer b : g.getMessageBufferList()) {
                    MessageExt m = MessageDecoder.decode(b, true, false);
                    n += m.getBody().length > 0 ? 1 : 0;
                }
                offset = g.getNextBeginOffset();
                g.release();
            }
        }
        return n;
    }

    static JSONObject lookup(DefaultMessageStore store, String topic, int count, int queueCount, int lookups) throws Exception {
        JSONObject r = new JSONObject(true);
        Random random = new Random(11);
        long end = System.currentTimeMillis() + 1000;
        long found = 0;
        long t0 = System.nanoTime();
        for (int i = 0; i < lookups; i++) {
            QueryMessageResult g = store.queryMessage(topic, "key" + random.nextInt(count), 32, 0, end);
            found += g.getMessageBufferList().size();
            g.release();
        }
        long t1 = System.nanoTime();
        r.put("query_by_key_per_s", lookups / ((t1 - t0) / 1e9));
        r.put("query_by_key_found", found);
        long first = store.getMessageStoreTimeStamp(topic, 0, 0);
        long last = store.getMessageStoreTimeStamp(topic, 0, store.getMaxOffsetInQueue(topic, 0) - 1);
        long t2 = System.nanoTime();
        long sum = 0;
        for (int i = 0; i < lookups; i++) {
            sum += store.getOffsetInQueueByTime(topic, i % queueCount, first + (long) (random.nextDouble() * Math.max(1, last - first)));
        }
        long t3 = System.nanoTime();
        r.put("offset_by_time_per_s", lookups / ((t3 - t2) / 1e9));
        r.put("offset_by_time_sum", sum);
        return r;
    }

    static void put(DefaultMessageStore store, String topic, byte[] body, int number, int queueCount, InetSocketAddress born, InetSocketAddress host) {
        MessageExtBrokerInner m = new MessageExtBrokerInner();
        m.setTopic(topic);
        m.setBody(body);
        m.setTags("TagA");
        m.setKeys("key" + number);
        m.setQueueId(number % queueCount);
        m.setBornTimestamp(System.currentTimeMillis());
        m.setBornHost(born);
        m.setStoreHost(host);
        m.setTagsCode(MessageExtBrokerInner.tagsString2tagsCode(TopicFilterType.SINGLE_TAG, "TagA"));
        m.setPropertiesString(MessageDecoder.messageProperties2String(m.getProperties()));
        if (!store.putMessage(m).isOk()) {
            throw new IllegalStateException("put failed");
        }
    }

    /** Puts so many a second. Gives the 99.9th percentile of the time from when a put was due to its end. */
    static double paced(DefaultMessageStore store, String topic, int count, int bodySize, int queueCount, int rate) {
        byte[] body = new byte[bodySize];
        new Random(7).nextBytes(body);
        InetSocketAddress born = new InetSocketAddress("127.0.0.1", 50000);
        InetSocketAddress host = new InetSocketAddress("127.0.0.1", 10911);
        long[] latencies = new long[count];
        long begin = System.nanoTime();
        for (int i = 0; i < count; i++) {
            long due = begin + i * 1_000_000_000L / rate;
            while (System.nanoTime() < due) {
                Thread.onSpinWait();
            }
            put(store, topic, body, i, queueCount, born, host);
            latencies[i] = System.nanoTime() - due;
        }
        Arrays.sort(latencies);
        return latencies[(int) (count * 0.999)] / 1e3;
    }

    /** Memory of the process that is no file's. */
    static long residentAnonymous() throws Exception {
        for (String line : Files.readAllLines(Paths.get("/proc/self/status"))) {
            if (line.startsWith("RssAnon:")) {
                return Long.parseLong(line.replaceAll("[^0-9]", "")) * 1024;
            }
        }
        throw new IllegalStateException("no RssAnon");
    }
}
