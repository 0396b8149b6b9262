import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Random;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.inlong.tubemq.client.config.ConsumerConfig;
import org.apache.inlong.tubemq.client.config.TubeClientConfig;
import org.apache.inlong.tubemq.client.consumer.ConsumePosition;
import org.apache.inlong.tubemq.client.consumer.ConsumerResult;
import org.apache.inlong.tubemq.client.consumer.PullMessageConsumer;
import org.apache.inlong.tubemq.client.exception.TubeClientException;
import org.apache.inlong.tubemq.client.factory.TubeMultiSessionFactory;
import org.apache.inlong.tubemq.client.producer.MessageProducer;
import org.apache.inlong.tubemq.client.producer.MessageSentCallback;
import org.apache.inlong.tubemq.client.producer.MessageSentResult;
import org.apache.inlong.tubemq.corebase.Message;

/**
 * The official client at work, in its best way: messages under way up to a window, one fetch after the other.
 *
 * <p>produce MASTERS TOPIC BYTES WINDOW WARM_MS MEASURE_MS BROKER_PID; fill MASTERS TOPIC BYTES MESSAGES; consume MASTERS
 * TOPIC GROUP MESSAGES BROKER_PID. Prints one JSON object.
 */
public final class Bench {

    private static final int FILL_WINDOW = 500;

    private Bench() {}

    public static void main(String[] args) {
        int code = 0;
        try {
            switch (args[0]) {
                case "produce":
                    produce(args);
                    break;
                case "fill":
                    fill(args);
                    break;
                case "consume":
                    consume(args);
                    break;
                default:
                    throw new IllegalArgumentException(args[0]);
            }
        } catch (Throwable e) {
            e.printStackTrace();
            code = 1;
        }
        System.out.flush();
        Runtime.getRuntime().halt(code); // the client leaves threads behind that would keep the JVM
    }

    private static void produce(String[] args) throws Exception {
        Sending sending = new Sending(args[1], args[2], Integer.parseInt(args[3]), Integer.parseInt(args[4]));
        Thread sender = new Thread(() -> sending.run(Long.MAX_VALUE), "sender");
        sender.start();
        Thread.sleep(Long.parseLong(args[5]));
        Reading reading = new Reading(sending.acked.get(), args[7]);
        long failed = sending.failed.get();
        Thread.sleep(Long.parseLong(args[6]));
        String found = reading.end(sending.acked.get());
        failed = sending.failed.get() - failed;
        sending.stop.set(true);
        System.out.println("{" + found + ", \"failed\": " + failed + "}");
    }

    private static void fill(String[] args) throws Exception {
        Sending sending = new Sending(args[1], args[2], Integer.parseInt(args[3]), FILL_WINDOW);
        sending.run(Long.parseLong(args[4]));
        System.out.println("{\"messages\": " + sending.acked.get() + "}");
    }

    private static void consume(String[] args) throws Exception {
        ConsumerConfig config = new ConsumerConfig(args[1], args[3]);
        config.setConsumePosition(ConsumePosition.CONSUMER_FROM_FIRST_OFFSET);
        config.setPullConsumeReadyWaitPeriodMs(500);
        PullMessageConsumer consumer = new TubeMultiSessionFactory(config).createPullConsumer(config);
        consumer.subscribe(args[2], null);
        long askedNs = System.nanoTime();
        long firstNs = 0;
        consumer.completeSubscribe();
        long wanted = Long.parseLong(args[4]);
        long got = 0;
        long bytes = 0;
        Reading reading = null;
        while (got < wanted) {
            ConsumerResult result = consumer.getMessage();
            if (!result.isSuccess()) {
                continue;
            }
            for (Message message : result.getMessageList()) {
                bytes += message.getData().length;
            }
            got += result.getMessageList().size();
            consumer.confirmConsume(result.getConfirmContext(), true);
            if (firstNs == 0 && got > 0) {
                firstNs = System.nanoTime();
            }
            if (reading == null && got >= wanted / 10) {
                reading = new Reading(got, args[5]);
            }
        }
        System.out.println("{" + reading.end(got) + ", \"bytes\": " + bytes + ", \"first_s\": " + (firstNs - askedNs) / 1e9 + "}");
    }

    /** Sends with at most `window` messages under way; what is refused is sent again. */
    private static final class Sending {

        final AtomicLong acked = new AtomicLong();
        final AtomicLong failed = new AtomicLong();
        final AtomicBoolean stop = new AtomicBoolean();
        private final MessageProducer producer;
        private final String topic;
        private final byte[] body;
        private final Semaphore window;

        Sending(String masters, String topic, int bytes, int window) throws Exception {
            producer = new TubeMultiSessionFactory(new TubeClientConfig(masters)).createProducer();
            producer.publish(topic);
            this.topic = topic;
            this.window = new Semaphore(window);
            body = new byte[bytes];
            new Random().nextBytes(body);
        }

        /** Until so many are acknowledged, or it is to stop. */
        void run(long count) {
            while (!stop.get() && acked.get() < count) {
                try {
                    window.acquire();
                    producer.sendMessage(new Message(topic, body), new MessageSentCallback() {

                        @Override
                        public void onMessageSent(MessageSentResult result) {
                            window.release();
                            (result.isSuccess() ? acked : failed).incrementAndGet();
                        }

                        @Override
                        public void onException(Throwable e) {
                            window.release();
                            failed.incrementAndGet();
                        }
                    });
                } catch (TubeClientException e) {
                    window.release();
                    failed.incrementAndGet();
                    pause();
                } catch (InterruptedException e) {
                    return;
                }
            }
        }

        private static void pause() {
            try {
                Thread.sleep(1);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** A window of time: what was done in it, and the processor time of this process and of the Broker. */
    private static final class Reading {

        private final long count;
        private final long startNs = System.nanoTime();
        private final String brokerPid;
        private final double brokerS;
        private final double clientS;
        private final double machineS;

        Reading(long count, String brokerPid) throws IOException {
            this.count = count;
            this.brokerPid = brokerPid;
            brokerS = cpuS(brokerPid);
            clientS = cpuS("self");
            machineS = machineS();
        }

        String end(long now) throws IOException {
            double seconds = (System.nanoTime() - startNs) / 1e9;
            double client = (cpuS("self") - clientS) / seconds;
            double broker = (cpuS(brokerPid) - brokerS) / seconds;
            double others = Math.max(0, (machineS() - machineS) / seconds - client - broker);
            return String.format("\"msgs_per_s\": %.1f, \"messages\": %d, \"seconds\": %.3f, "
                    + "\"cores\": {\"client\": %.2f, \"broker\": %.2f, \"others\": %.2f}",
                    (now - count) / seconds, now - count, seconds, client, broker, others);
        }

        /** Processor seconds of all processes of the machine. */
        private static double machineS() throws IOException {
            String[] fields = Files.readString(Path.of("/proc/stat")).split("\\s+", 9);
            long ticks = Long.parseLong(fields[1]) + Long.parseLong(fields[2]) + Long.parseLong(fields[3])
                    + Long.parseLong(fields[6]) + Long.parseLong(fields[7]);
            return ticks / 100.0;
        }

        private static double cpuS(String pid) throws IOException {
            String stat = Files.readString(Path.of("/proc", pid, "stat"));
            String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ");
            return (Long.parseLong(fields[11]) + Long.parseLong(fields[12])) / 100.0;
        }
    }
}
