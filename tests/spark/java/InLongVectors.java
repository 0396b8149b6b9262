import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.List;
import org.apache.inlong.common.msg.InLongMsg;

/**
 * The official class at work, a line in and a line out, all bytes in hex.
 *
 * make VERSION COMPRESS ATTR DATA [ATTR DATA]...   a message of version 0 to 2, or null
 * make3 COMPRESS ATTR DATA OWN [DATA OWN]...       a message of version 3: records with attributes of their own
 * wrap COMPRESS BINARY                             a message of version 4 around a binary one, or null
 * parse MESSAGE                                    version, time of making, then for each group its attributes and records
 */
public class InLongVectors {
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line; (line = in.readLine()) != null;) {
            System.out.println(answer(line.split(" ", -1)));
            System.out.flush();
        }
    }

    private static String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "make": {
                InLongMsg message = InLongMsg.newInLongMsg(words[2].equals("true"), Integer.parseInt(words[1]));
                for (int at = 3; at < words.length; at += 2) {
                    message.addMsg(text(words[at]), bytes(words[at + 1]));
                }
                return hex(message.buildArray(1700000000123L));
            }
            case "make3": {
                InLongMsg message = InLongMsg.newInLongMsg(words[1].equals("true"), 3);
                ByteArrayOutputStream inside = new ByteArrayOutputStream();
                DataOutputStream out = new DataOutputStream(inside);
                for (int at = 3; at < words.length; at++) {
                    byte[] piece = bytes(words[at]);
                    out.writeInt(piece.length);
                    out.write(piece);
                }
                message.addMsg(text(words[2]), inside.toByteArray());
                return hex(message.buildArray(1700000000123L));
            }
            case "wrap": {
                InLongMsg message = InLongMsg.newInLongMsg(words[1].equals("true"), 4);
                return message.addMsg(bytes(words[2])) ? hex(message.buildArray(1700000000123L)) : "null";
            }
            default: {
                InLongMsg message = InLongMsg.parseFrom(bytes(words[1]));
                List<String> told = new ArrayList<>();
                told.add(String.valueOf(message.getVersion()));
                told.add(String.valueOf(message.getCreatetime()));
                for (String attributes : message.getAttrs()) {
                    StringBuilder group = new StringBuilder(hex(attributes.getBytes(StandardCharsets.UTF_8)));
                    for (Iterator<byte[]> records = message.getIterator(attributes); records.hasNext();) {
                        group.append(',').append(hex(records.next()));
                    }
                    told.add(group.toString());
                }
                return String.join(" ", told);
            }
        }
    }

    private static byte[] bytes(String hex) {
        return HEX.parseHex(hex);
    }

    private static String text(String hex) {
        return new String(bytes(hex), StandardCharsets.UTF_8);
    }

    private static String hex(byte[] data) {
        return data == null ? "null" : HEX.formatHex(data);
    }
}
