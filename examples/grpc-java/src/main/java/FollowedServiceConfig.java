import com.google.gson.Gson;
import com.google.gson.JsonParseException;
import io.grpc.NameResolver;
import io.grpc.NameResolver.ConfigOrError;
import io.grpc.NameResolverProvider;
import io.grpc.NameResolverRegistry;
import io.grpc.Status;
import java.io.IOException;
import java.net.SocketAddress;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Collection;
import java.util.Map;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.logging.Logger;

/**
 * Resolves names as DNS does, with the service config of a file, and follows the file while the channel lives.
 *
 * <p>gRPC takes on a service config at run time only from its name resolver. Register one of these before the channel is
 * built, and give the channel a target such as {@code hedged:///kb-shards.helpdesk.svc:9090}:
 *
 * <pre>{@code
 * NameResolverRegistry.getDefaultRegistry().register(new FollowedServiceConfig(Path.of("/etc/hedgerow/sc.json")));
 * }</pre>
 *
 * <p>Without the file there is no service config, so nothing is hedged. A file that gRPC refuses is logged and changes
 * nothing.
 */
public final class FollowedServiceConfig extends NameResolverProvider {
  private static final Logger LOG = Logger.getLogger(FollowedServiceConfig.class.getName());
  private static final String SCHEME = "hedged";

  /** Reading a small file costs nothing, and sees every way in which a mounted file can change. */
  private static final long SECONDS_BETWEEN_READINGS = 1;

  private final Path file;

  /** Follows {@code file}, which lies in a mounted folder: one mounted by {@code subPath} never changes. */
  public FollowedServiceConfig(Path file) {
    this.file = file;
  }

  @Override
  public NameResolver newNameResolver(URI target, NameResolver.Args args) {
    if (!SCHEME.equals(target.getScheme())) {
      return null;
    }
    NameResolverProvider dns = NameResolverRegistry.getDefaultRegistry().getProviderForScheme("dns");
    return new Resolver(dns.newNameResolver(URI.create("dns://" + target.getPath()), args), args);
  }

  @Override
  public String getDefaultScheme() {
    return SCHEME;
  }

  @Override
  protected boolean isAvailable() {
    return true;
  }

  @Override
  protected int priority() {
    return 5;
  }

  @Override
  public Collection<Class<? extends SocketAddress>> getProducedSocketAddressTypes() {
    return NameResolverRegistry.getDefaultRegistry().getProviderForScheme("dns").getProducedSocketAddressTypes();
  }

  /** All but the reading of the file runs in the channel's synchronization context. */
  private final class Resolver extends NameResolver {
    private final NameResolver addresses;
    private final Args args;
    private Listener2 listener;
    private ResolutionResult resolved;
    private String text;
    private ConfigOrError config;
    private ScheduledFuture<?> readings;

    Resolver(NameResolver addresses, Args args) {
      this.addresses = addresses;
      this.args = args;
    }

    @Override
    public String getServiceAuthority() {
      return addresses.getServiceAuthority();
    }

    @Override
    public void start(Listener2 channel) {
      listener = channel;
      takeOn(read());
      readings = args.getScheduledExecutorService().scheduleWithFixedDelay(
          this::readAgain, SECONDS_BETWEEN_READINGS, SECONDS_BETWEEN_READINGS, TimeUnit.SECONDS);
      addresses.start(new Listener2() {
        @Override
        public Status onResult2(ResolutionResult result) {
          resolved = result;
          return tell();
        }

        @Override
        public void onResult(ResolutionResult result) {
          args.getSynchronizationContext().execute(() -> onResult2(result));
        }

        @Override
        public void onError(Status error) {
          listener.onError(error);
        }
      });
    }

    @Override
    public void refresh() {
      addresses.refresh();
    }

    @Override
    public void shutdown() {
      addresses.shutdown();
      if (readings != null) {
        readings.cancel(false);
      }
    }

    private Status tell() {
      return listener.onResult2(resolved.toBuilder().setServiceConfig(config).build());
    }

    private void readAgain() {
      String now = read();
      args.getSynchronizationContext().execute(() -> {
        if (takeOn(now) && resolved != null) {
          tell();
        }
      });
    }

    /** What the file says, nothing when there is none, null when it cannot be read. */
    private String read() {
      try {
        return Files.readString(file);
      } catch (NoSuchFileException absent) {
        return "";
      } catch (IOException failure) {
        LOG.warning(() -> "cannot read " + file + ": " + failure);
        return null;
      }
    }

    /** Whether there is a config other than before. */
    private boolean takeOn(String now) {
      if (now == null || now.equals(text)) {
        return false;
      }
      text = now;
      ConfigOrError parsed = now.isEmpty() ? null : parse(now);
      if (parsed != null && parsed.getError() != null) {
        LOG.warning(() -> file + " is refused and changes nothing: " + parsed.getError());
        return false;
      }
      config = parsed;
      LOG.info(() -> file + (parsed == null ? " is not there" : " is taken on"));
      return true;
    }

    private ConfigOrError parse(String json) {
      try {
        Map<?, ?> object = new Gson().fromJson(json, Map.class);
        @SuppressWarnings("unchecked") // JSON's keys are strings
        Map<String, ?> serviceConfig = (Map<String, ?>) object;
        return args.getServiceConfigParser().parseServiceConfig(serviceConfig);
      } catch (JsonParseException failure) {
        return ConfigOrError.fromError(Status.INVALID_ARGUMENT.withDescription(failure.getMessage()));
      }
    }
  }
}
