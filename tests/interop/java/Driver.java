import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * Official clients on a leash: one command per line of standard input, one answer or event per line of standard output,
 * all JSON. Every command runs in a thread of its own, so that one may wait while others go on. The end of standard
 * input ends the process.
 */
public final class Driver {

    interface Client {
        Object call(String op, JsonObject with) throws Throwable;
    }

    private static final Gson GSON = new GsonBuilder().serializeNulls().disableHtmlEscaping().create();
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    private static final Map<String, Client> CLIENTS = new ConcurrentHashMap<>();

    public static void main(String[] none) throws Exception {
        ExecutorService threads = Executors.newCachedThreadPool();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        System.setOut(System.err);
        tell(Map.of("event", "ready"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonObject command = JsonParser.parseString(line).getAsJsonObject();
            threads.execute(() -> answer(command));
        }
        Runtime.getRuntime().halt(0);
    }

    private static void answer(JsonObject command) {
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("id", command.get("id").getAsLong());
        try {
            answer.put("result", run(command));
        } catch (Throwable e) {
            answer.put("error", e.toString());
            e.printStackTrace();
        }
        tell(answer);
    }

    private static Object run(JsonObject command) throws Throwable {
        String op = command.get("op").getAsString();
        String name = command.get("client").getAsString();
        switch (op) {
            case "producer":
                CLIENTS.put(name, new Producing(command));
                return null;
            case "consumer":
                Consuming consumer = new Consuming(name, command);
                CLIENTS.put(name, consumer);
                return consumer.start(command);
            case "balance":
                CLIENTS.put(name, new Balancing(name, command));
                return null;
            default:
                Client client = CLIENTS.get(name);
                if (client == null) {
                    throw new IllegalArgumentException("no client " + name);
                }
                return client.call(op, command);
        }
    }

    static void tell(Object what) {
        String line = GSON.toJson(what);
        synchronized (OUT) {
            OUT.println(line);
            OUT.flush();
        }
    }
}
