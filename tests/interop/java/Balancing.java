import com.google.gson.JsonObject;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.inlong.tubemq.client.common.ConfirmResult;
import org.apache.inlong.tubemq.client.common.ConsumeResult;
import org.apache.inlong.tubemq.client.common.QueryMetaResult;
import org.apache.inlong.tubemq.client.config.ConsumerConfig;
import org.apache.inlong.tubemq.client.consumer.ClientBalanceConsumer;
import org.apache.inlong.tubemq.client.factory.TubeMultiSessionFactory;
import org.apache.inlong.tubemq.corebase.rv.ProcessResult;
import org.apache.inlong.tubemq.corebase.rv.RetValue;

/** A client-balance consumer: each of its seventeen operations by its own name, and a loop that reads and confirms. */
final class Balancing implements Driver.Client {

    private final String name;
    private final TubeMultiSessionFactory factory;
    private final ClientBalanceConsumer consumer;
    private volatile boolean reading;

    Balancing(String name, JsonObject with) throws Exception {
        this.name = name;
        ConsumerConfig config = Consuming.config(with);
        factory = new TubeMultiSessionFactory(config);
        consumer = factory.createBalanceConsumer(config);
    }

    @Override
    public Object call(String op, JsonObject with) throws Throwable {
        ProcessResult result = new ProcessResult();
        switch (op) {
            case "getClientVersion":
                return consumer.getClientVersion();
            case "getConsumerId":
                return consumer.getConsumerId();
            case "isShutdown":
                return consumer.isShutdown();
            case "isFilterConsume":
                return consumer.isFilterConsume(text(with, "topic"));
            case "getConsumerConfig":
                return consumer.getConsumerConfig().getConsumerGroup();
            case "getSourceCount":
                return consumer.getSourceCount();
            case "getNodeId":
                return consumer.getNodeId();
            case "start":
                boolean started = consumer.start(Consuming.topics(with), with.get("source_count").getAsInt(),
                        with.get("node_id").getAsInt(), result);
                return outcome(started, result);
            case "getPartitionMetaInfo":
                QueryMetaResult meta = new QueryMetaResult();
                Map<String, Object> found = outcome(consumer.getPartitionMetaInfo(meta), meta);
                found.put("partitions", meta.getPartStatusMap());
                return found;
            case "isPartitionsReady":
                return consumer.isPartitionsReady(with.get("wait_ms").getAsLong());
            case "getCurRegisteredPartSet":
                return consumer.getCurRegisteredPartSet();
            case "connect2Partition":
                return outcome(consumer.connect2Partition(text(with, "partition"), with.get("offset").getAsLong(),
                        result), result);
            case "disconnectFromPartition":
                return outcome(consumer.disconnectFromPartition(text(with, "partition"), result), result);
            case "getCurPartitionOffsetInfos":
                Map<String, long[]> offsets = new HashMap<>();
                consumer.getCurPartitionOffsetInfos().forEach(
                        (key, info) -> offsets.put(key, new long[] {info.getCurrOffset(), info.getMaxOffset()}));
                return offsets;
            case "getMessage":
                return getMessage();
            case "confirmConsume":
                ConfirmResult confirmed = new ConfirmResult();
                return outcome(consumer.confirmConsume(text(with, "context"), with.get("consumed").getAsBoolean(),
                        confirmed), confirmed);
            case "read":
                read();
                return null;
            case "pause":
                reading = false;
                return null;
            case "shutdown":
            case "close":
                reading = false;
                consumer.shutdown();
                if (op.equals("close")) {
                    factory.shutdown();
                }
                return null;
            default:
                throw new IllegalArgumentException("a client-balance consumer cannot " + op);
        }
    }

    private Map<String, Object> getMessage() throws Exception {
        ConsumeResult got = new ConsumeResult();
        Map<String, Object> found = outcome(consumer.getMessage(got), got);
        if (got.isSuccess()) {
            found.put("partition", got.getPartitionKey());
            found.put("context", got.getConfirmContext());
            found.put("count", got.getMessageList().size());
            found.put("first", got.getMessageList().isEmpty() ? "" : MessageSet.digest(got.getMessageList().get(0)));
        }
        return found;
    }

    private void read() {
        reading = true;
        Thread thread = new Thread(() -> {
            while (reading) {
                try {
                    ConsumeResult got = new ConsumeResult();
                    if (!consumer.getMessage(got)) {
                        Consuming.tellCode(name, got.getErrCode(), got.getErrMsg());
                        Thread.sleep(5);
                        continue;
                    }
                    Consuming.tellBatch(name, got.getPartitionKey(), got.getCurrOffset(), got.getMessageList());
                    ConfirmResult confirmed = new ConfirmResult();
                    if (!consumer.confirmConsume(got.getConfirmContext(), true, confirmed)) {
                        Consuming.tellCode(name, confirmed.getErrCode(), confirmed.getErrMsg());
                    }
                } catch (Throwable e) {
                    Consuming.tellCode(name, -1, e.toString());
                    Consuming.pause();
                }
            }
        }, "read-" + name);
        thread.setDaemon(true);
        thread.start();
    }

    private static Map<String, Object> outcome(boolean done, RetValue result) {
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("done", done);
        found.put("code", result.getErrCode());
        found.put("text", result.getErrMsg());
        return found;
    }

    private static String text(JsonObject with, String key) {
        return with.get(key).getAsString();
    }
}
