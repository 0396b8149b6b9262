import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.inlong.tubemq.client.config.TubeClientConfig;
import org.apache.inlong.tubemq.client.factory.TubeMultiSessionFactory;
import org.apache.inlong.tubemq.client.producer.MessageProducer;
import org.apache.inlong.tubemq.client.producer.MessageSentCallback;
import org.apache.inlong.tubemq.client.producer.MessageSentResult;

/** A producer: publishes topics, sends parts of message sets and says where each message went. */
final class Producing implements Driver.Client {

    private static final int TRIES = 200;

    private final TubeMultiSessionFactory factory;
    private final MessageProducer producer;
    private final AtomicBoolean stop = new AtomicBoolean();
    private final AtomicInteger sent = new AtomicInteger();

    Producing(JsonObject with) throws Exception {
        factory = new TubeMultiSessionFactory(Secure.config(new TubeClientConfig(with.get("masters").getAsString()), with));
        producer = factory.createProducer();
    }

    @Override
    public Object call(String op, JsonObject with) throws Throwable {
        switch (op) {
            case "publish":
                TreeSet<String> topics = new TreeSet<>();
                for (JsonElement one : with.getAsJsonArray("topics")) {
                    topics.add(one.getAsString());
                }
                return producer.publish(topics);
            case "send":
                return send(with);
            case "sent":
                return sent.get();
            case "stop":
                stop.set(true);
                return null;
            case "close":
                producer.shutdown();
                factory.shutdown();
                return null;
            default:
                throw new IllegalArgumentException("a producer cannot " + op);
        }
    }

    /** Answers with the receipts: [index, partition key, offset of the appended message, tries]. */
    private List<Object[]> send(JsonObject with) throws Exception {
        String topic = with.get("topic").getAsString();
        String set = with.get("set").getAsString();
        int first = with.get("first").getAsInt();
        int end = first + with.get("count").getAsInt();
        long pauseMs = with.has("pause_ms") ? with.get("pause_ms").getAsLong() : 0;
        List<Object[]> receipts = Collections.synchronizedList(new ArrayList<>());
        int most = with.has("tries") ? with.get("tries").getAsInt() : TRIES;
        if (with.get("sync").getAsBoolean()) {
            for (int index = first; index < end && !stop.get(); index++) {
                receipts.add(sendSync(topic, set, index, most));
                sent.incrementAndGet();
                if (pauseMs > 0) {
                    Thread.sleep(pauseMs);
                }
            }
        } else {
            sendAsync(topic, set, first, end, receipts);
        }
        return receipts;
    }

    private Object[] sendSync(String topic, String set, int index, int most) throws Exception {
        String said = "";
        for (int tries = 1; tries <= most; tries++) {
            try {
                MessageSentResult found = producer.sendMessage(MessageSet.make(topic, set, index));
                if (found.isSuccess()) {
                    return receipt(index, found, tries);
                }
                said = found.getErrCode() + " " + found.getErrMsg();
            } catch (org.apache.inlong.tubemq.client.exception.TubeClientException e) {
                said = e.toString();
            }
            Thread.sleep(50);
        }
        throw new IllegalStateException("message " + index + " was refused " + most + " times: " + said);
    }

    private void sendAsync(String topic, String set, int first, int end, List<Object[]> receipts) throws Exception {
        Semaphore window = new Semaphore(500);
        ConcurrentLinkedQueue<int[]> again = new ConcurrentLinkedQueue<>();
        ConcurrentLinkedQueue<String> said = new ConcurrentLinkedQueue<>();
        AtomicInteger settled = new AtomicInteger();
        int next = first;
        while (settled.get() < end - first) {
            int[] one = again.poll();
            if (one == null && next < end) {
                one = new int[] {next++, 1};
            }
            if (one == null) {
                Thread.sleep(1);
                continue;
            }
            if (one[1] > TRIES) {
                throw new IllegalStateException("message " + one[0] + " was refused " + TRIES + " times: " + said.poll());
            }
            if (one[1] > 1) {
                Thread.sleep(20);
            }
            int[] sent = one;
            window.acquire();
            try {
                producer.sendMessage(MessageSet.make(topic, set, sent[0]), new MessageSentCallback() {

                    @Override
                    public void onMessageSent(MessageSentResult found) {
                        window.release();
                        if (found.isSuccess()) {
                            receipts.add(receipt(sent[0], found, sent[1]));
                            settled.incrementAndGet();
                        } else {
                            failed(found.getErrCode() + " " + found.getErrMsg());
                        }
                    }

                    @Override
                    public void onException(Throwable e) {
                        window.release();
                        failed(e.toString());
                    }

                    private void failed(String why) {
                        said.add(why);
                        again.add(new int[] {sent[0], sent[1] + 1});
                    }
                });
            } catch (org.apache.inlong.tubemq.client.exception.TubeClientException e) {
                window.release();
                said.add(e.toString());
                again.add(new int[] {sent[0], sent[1] + 1});
            }
        }
    }

    private static Object[] receipt(int index, MessageSentResult found, int tries) {
        return new Object[] {index, found.getPartition().getPartitionKey(), found.getAppendOffset(), tries};
    }
}
