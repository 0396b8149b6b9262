import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.Executor;
import org.apache.inlong.tubemq.client.common.PeerInfo;
import org.apache.inlong.tubemq.client.config.ConsumerConfig;
import org.apache.inlong.tubemq.client.consumer.ConsumePosition;
import org.apache.inlong.tubemq.client.consumer.ConsumerResult;
import org.apache.inlong.tubemq.client.consumer.MessageConsumer;
import org.apache.inlong.tubemq.client.consumer.MessageListener;
import org.apache.inlong.tubemq.client.consumer.PullMessageConsumer;
import org.apache.inlong.tubemq.client.consumer.PushMessageConsumer;
import org.apache.inlong.tubemq.client.factory.TubeMultiSessionFactory;
import org.apache.inlong.tubemq.corebase.Message;

/** A pull or push consumer, balanced by the Master, bound or not: tells every batch it gets, and confirms it. */
final class Consuming implements Driver.Client {

    private final String name;
    private final TubeMultiSessionFactory factory;
    private final MessageConsumer consumer;
    private volatile boolean closed;
    private volatile long askedNs;
    private volatile boolean received;

    Consuming(String name, JsonObject with) throws Exception {
        this.name = name;
        ConsumerConfig config = config(with);
        factory = new TubeMultiSessionFactory(config);
        consumer = with.get("push").getAsBoolean() ? factory.createPushConsumer(config)
                : factory.createPullConsumer(config);
    }

    static ConsumerConfig config(JsonObject with) throws Exception {
        ConsumerConfig config = new ConsumerConfig(with.get("masters").getAsString(), with.get("group").getAsString());
        Secure.config(config, with);
        config.setConsumePosition(ConsumePosition.valueOf(with.get("position").getAsInt()));
        config.setPullConsumeReadyWaitPeriodMs(500);
        config.setMsgNotFoundWaitPeriodMs(100);
        return config;
    }

    static Map<String, TreeSet<String>> topics(JsonObject with) {
        Map<String, TreeSet<String>> found = new HashMap<>();
        for (Map.Entry<String, JsonElement> one : with.getAsJsonObject("topics").entrySet()) {
            TreeSet<String> filters = new TreeSet<>();
            for (JsonElement item : one.getValue().getAsJsonArray()) {
                filters.add(item.getAsString());
            }
            found.put(one.getKey(), filters);
        }
        return found;
    }

    Object start(JsonObject with) throws Exception {
        for (Map.Entry<String, TreeSet<String>> one : topics(with).entrySet()) {
            TreeSet<String> filters = one.getValue().isEmpty() ? null : one.getValue();
            if (consumer instanceof PullMessageConsumer) {
                ((PullMessageConsumer) consumer).subscribe(one.getKey(), filters);
            } else {
                ((PushMessageConsumer) consumer).subscribe(one.getKey(), filters, listener(one.getKey()));
            }
        }
        askedNs = System.nanoTime();
        if (with.has("session_key")) {
            Map<String, Long> offsets = new HashMap<>();
            for (Map.Entry<String, JsonElement> one : with.getAsJsonObject("offsets").entrySet()) {
                offsets.put(one.getKey(), one.getValue().getAsLong());
            }
            consumer.completeSubscribe(with.get("session_key").getAsString(), with.get("source_count").getAsInt(),
                    with.get("select_big").getAsBoolean(), offsets);
        } else {
            consumer.completeSubscribe();
        }
        if (consumer instanceof PullMessageConsumer) {
            Thread reading = new Thread(this::pull, "pull-" + name);
            reading.setDaemon(true);
            reading.start();
        }
        return consumer.getConsumerId();
    }

    private MessageListener listener(String topic) {
        return new MessageListener() {

            @Override
            public void receiveMessages(PeerInfo peer, List<Message> messages) throws InterruptedException {
                try {
                    tellFirst();
                    tellBatch(name, peer.getPartitionKey(), peer.getCurrOffset(), messages);
                } catch (Exception e) {
                    throw new IllegalStateException(e);
                }
            }

            @Override
            public Executor getExecutor() {
                return null;
            }

            @Override
            public void stop() {
                Driver.tell(Map.of("event", "stopped", "client", name, "topic", topic));
            }
        };
    }

    private void pull() {
        PullMessageConsumer pull = (PullMessageConsumer) consumer;
        while (!closed) {
            try {
                ConsumerResult got = pull.getMessage();
                if (!got.isSuccess()) {
                    tellCode(name, got.getErrCode(), got.getErrMsg());
                    continue;
                }
                if (!got.getMessageList().isEmpty()) {
                    tellFirst();
                }
                tellBatch(name, got.getPartitionKey(), got.getCurrOffset(), got.getMessageList());
                ConsumerResult confirmed = pull.confirmConsume(got.getConfirmContext(), true);
                if (!confirmed.isSuccess()) {
                    tellCode(name, confirmed.getErrCode(), confirmed.getErrMsg());
                }
            } catch (Throwable e) {
                if (!closed) {
                    tellCode(name, -1, e.toString());
                    pause();
                }
            }
        }
    }

    /** How long the first message took, from the call of completeSubscribe. */
    private void tellFirst() {
        if (!received) {
            received = true;
            Driver.tell(Map.of("event", "first", "client", name, "ms", (System.nanoTime() - askedNs) / 1_000_000));
        }
    }

    static void tellBatch(String name, String partition, long offset, List<Message> messages) throws Exception {
        if (messages.isEmpty()) {
            return;
        }
        Object[][] all = new Object[messages.size()][];
        for (int at = 0; at < all.length; at++) {
            Message one = messages.get(at);
            all[at] = new Object[] {one.getAttrValue("set"), one.getAttrValue("i"), MessageSet.digest(one)};
        }
        Map<String, Object> event = new HashMap<>();
        event.put("event", "batch");
        event.put("client", name);
        event.put("partition", partition);
        event.put("offset", offset);
        event.put("messages", all);
        Driver.tell(event);
    }

    /** Codes that only say "nothing now" are not worth a line. */
    static void tellCode(String name, int code, String text) {
        if (code == 404 || code >= 405 && code <= 408) {
            return;
        }
        Driver.tell(Map.of("event", "code", "client", name, "code", code, "text", String.valueOf(text)));
    }

    static void pause() {
        try {
            Thread.sleep(100);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public Object call(String op, JsonObject with) throws Throwable {
        switch (op) {
            case "partitions":
                Map<String, Long> offsets = new HashMap<>();
                consumer.getCurConsumedPartitions().forEach((key, info) -> offsets.put(key, info.getCurrOffset()));
                return offsets;
            case "pause":
                ((PushMessageConsumer) consumer).pauseConsume();
                return null;
            case "resume":
                ((PushMessageConsumer) consumer).resumeConsume();
                return null;
            case "close":
                closed = true;
                consumer.shutdown();
                factory.shutdown();
                return null;
            default:
                throw new IllegalArgumentException("a consumer cannot " + op);
        }
    }
}
