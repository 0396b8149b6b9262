import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.Map;
import java.util.TreeMap;
import org.apache.inlong.tubemq.corebase.Message;

/**
 * Messages that follow from the name of their set and their index: Python makes the very same ones (message_set.py).
 */
final class MessageSet {

    static final int MAXIMUM = 1 << 20;
    private static final int POOL = 2 << 20;
    private static final byte[] BYTES = pool();

    private MessageSet() {}

    static Message make(String topic, String set, int index) {
        byte[] dice = sha256((set + ":" + index).getBytes(StandardCharsets.US_ASCII));
        Message message;
        if (index % 5000 == 4999) {
            // At the limit: what is counted is the body's bytes and the attributes' characters.
            int attributes = ("set=" + set + ",i=" + index).length();
            message = new Message(topic, body(dice, MAXIMUM - attributes));
        } else {
            message = new Message(topic, body(dice, size(index, dice)));
            if (u8(dice, 11) % 8 != 0) {
                message.putSystemHeader("t" + u8(dice, 10) % 4, String.format("202601%02d%02d%02d",
                        1 + u8(dice, 12) % 28, u8(dice, 13) % 24, u8(dice, 14) % 60));
            }
        }
        message.setAttrKeyVal("set", set);
        message.setAttrKeyVal("i", Integer.toString(index));
        if (index % 5000 != 4999) {
            message.setAttrKeyVal("k" + u8(dice, 15) % 5, hex(dice, 16, 4));
            if (index % 50 == 7) {
                message.setAttrKeyVal("long", "äö€".repeat(1 + u8(dice, 20)));
            }
        }
        return message;
    }

    /** Sixteen hexadecimal digits that stand for everything a reader sees of a message. */
    static String digest(Message message) throws Exception {
        MessageDigest sha = MessageDigest.getInstance("SHA-256");
        sha.update(message.getData());
        StringBuilder rest = new StringBuilder();
        for (Map.Entry<String, String> one : attributes(message).entrySet()) {
            rest.append('\n').append(one.getKey()).append('=').append(one.getValue());
        }
        rest.append('\n').append(text(message.getMsgType())).append('\n').append(text(message.getMsgTime()));
        sha.update(rest.toString().getBytes(StandardCharsets.UTF_8));
        return hex(sha.digest(), 0, 8);
    }

    /** What the user attached, without the two system entries. */
    private static TreeMap<String, String> attributes(Message message) {
        TreeMap<String, String> found = new TreeMap<>();
        String all = message.getAttribute();
        for (String one : all == null ? new String[0] : all.split(",")) {
            int at = one.indexOf('=');
            if (at > 0 && !one.startsWith("$msg")) {
                found.put(one.substring(0, at), one.substring(at + 1));
            }
        }
        return found;
    }

    private static int size(int index, byte[] dice) {
        if (index % 1000 == 0) {
            return 1;
        }
        if (index % 500 == 499) {
            return 70_000;
        }
        if (index % 100 == 99) {
            return 9_000;
        }
        return 1 + (u8(dice, 0) << 8 | u8(dice, 1)) % 300;
    }

    private static byte[] body(byte[] dice, int size) {
        long number = (long) u8(dice, 2) << 24 | u8(dice, 3) << 16 | u8(dice, 4) << 8 | u8(dice, 5);
        int start = (int) (number % (POOL - size));
        byte[] body = new byte[size];
        System.arraycopy(BYTES, start, body, 0, size);
        return body;
    }

    private static byte[] pool() {
        byte[] all = new byte[POOL];
        for (int at = 0; at < POOL; at += 32) {
            byte[] block = sha256(("pool:" + at).getBytes(StandardCharsets.US_ASCII));
            System.arraycopy(block, 0, all, at, 32);
        }
        return all;
    }

    private static byte[] sha256(byte[] text) {
        try {
            return MessageDigest.getInstance("SHA-256").digest(text);
        } catch (java.security.NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }

    private static int u8(byte[] bytes, int at) {
        return bytes[at] & 0xff;
    }

    private static String hex(byte[] bytes, int from, int count) {
        StringBuilder text = new StringBuilder();
        for (int at = from; at < from + count; at++) {
            text.append(Character.forDigit(bytes[at] >> 4 & 15, 16)).append(Character.forDigit(bytes[at] & 15, 16));
        }
        return text.toString();
    }

    private static String text(String maybe) {
        return maybe == null ? "" : maybe;
    }
}
