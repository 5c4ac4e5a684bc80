import java.io.FileInputStream;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.io.PrintStream;
import java.util.Properties;
import java.util.TreeMap;

/** Prints what java.util.Properties reads, by key; a line end within a key or a value as a blank. */
public final class Main {
  public static void main(String[] arguments) throws Exception {
    Properties properties = new Properties();
    try (InputStream bytes = new FileInputStream(arguments[0])) {
      properties.load(bytes);
    }
    PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    new TreeMap<>(properties).forEach((key, value) -> out.println((key + "=" + value).replace('\n', ' ')));
  }
}
