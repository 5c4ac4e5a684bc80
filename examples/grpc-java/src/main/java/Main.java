import io.grpc.CallOptions;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.MethodDescriptor;
import io.grpc.MethodDescriptor.Marshaller;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.NameResolverRegistry;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ClientCalls;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;

/**
 * Reads queries from standard input, one a line, asks a shard, and prints how each call ended: a status of gRPC and the answer.
 *
 * <p>Arguments: the shard as {@code HOST:PORT}, and the file that Hedgerow writes.
 */
public final class Main {
  private Main() {}

  public static void main(String[] arguments) throws IOException {
    NameResolverRegistry.getDefaultRegistry().register(new FollowedServiceConfig(Path.of(arguments[1])));
    ManagedChannel channel =
        Grpc.newChannelBuilder("hedged:///" + arguments[0], InsecureChannelCredentials.create()).build();
    channel.getState(true); // connects now, not with the first call
    BufferedReader queries = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String query = queries.readLine(); query != null; query = queries.readLine()) {
      System.out.println(ask(channel, query));
    }
    channel.shutdownNow();
  }

  private static String ask(ManagedChannel channel, String query) {
    try {
      return "OK " + ClientCalls.blockingUnaryCall(channel, READ, CallOptions.DEFAULT, query);
    } catch (StatusRuntimeException failure) {
      return failure.getStatus().getCode() + " " + failure.getStatus().getDescription();
    }
  }

  /** Plain text, so that the example needs no generated code. */
  private static final Marshaller<String> TEXT = new Marshaller<>() {
    @Override
    public InputStream stream(String value) {
      return new ByteArrayInputStream(value.getBytes(StandardCharsets.UTF_8));
    }

    @Override
    public String parse(InputStream stream) {
      try {
        return new String(stream.readAllBytes(), StandardCharsets.UTF_8);
      } catch (IOException failure) {
        throw new UncheckedIOException(failure);
      }
    }
  };

  private static final MethodDescriptor<String, String> READ = MethodDescriptor.<String, String>newBuilder()
      .setType(MethodType.UNARY)
      .setFullMethodName("search.Shard/Read")
      .setRequestMarshaller(TEXT)
      .setResponseMarshaller(TEXT)
      .build();
}
