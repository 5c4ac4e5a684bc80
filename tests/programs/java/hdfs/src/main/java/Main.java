import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.client.impl.DfsClientConf;

/** Lays a document over the client's defaults, and prints what the client would make of it. */
public final class Main {
  public static void main(String[] arguments) {
    HdfsConfiguration configuration = new HdfsConfiguration();
    configuration.addResource(new Path(new java.io.File(arguments[0]).toURI()));
    DfsClientConf client = new DfsClientConf(configuration);
    System.out.println("threads=" + client.getHedgedReadThreadpoolSize());
    System.out.println("thresholdMillis=" + client.getHedgedReadThresholdMillis());
  }
}
