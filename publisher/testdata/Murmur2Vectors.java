import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.utils.Utils;

/** Prints what murmur2.txt holds, with the Java client: java -cp 'DIRECTORY OF KAFKA JARS/*' Murmur2Vectors.java */
public class Murmur2Vectors {
    public static void main(String[] args) {
        List<byte[]> keys = new ArrayList<>();
        for (String s : new String[] {"", "a", "21", "abc", "foobar", "order-1", "Zürich", "Ž", "ключ", "東京都", "😀", "e\u0301", "\u00e9", " ", "\u0000", "\ufeff",
                "a-little-bit-long-string", "a-little-bit-longer-string", "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
                "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "9223372036854775807", "-1", "{\"id\": 1}"})
            keys.add(s.getBytes(StandardCharsets.UTF_8));
        Random random = new Random(2);
        for (int length = 1; length <= 40; length++)
            for (int i = 0; i < 3; i++) {
                byte[] key = new byte[length];
                random.nextBytes(key);
                keys.add(key);
            }
        for (int fill : new int[] {0x00, 0x7f, 0x80, 0xff})
            for (int length = 1; length <= 8; length++) {
                byte[] key = new byte[length];
                Arrays.fill(key, (byte) fill);
                keys.add(key);
            }
        for (byte[] key : keys) {
            StringBuilder line = new StringBuilder("x").append(HexFormat.of().formatHex(key)).append(' ').append(Utils.murmur2(key));
            for (int partitions : new int[] {1, 2, 3, 6, 7, 12, 100, 1000})
                line.append(' ').append(BuiltInPartitioner.partitionForKey(key, partitions));
            System.out.println(line);
        }
    }
}
