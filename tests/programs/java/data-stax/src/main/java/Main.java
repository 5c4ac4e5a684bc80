import com.datastax.oss.driver.api.core.CqlIdentifier;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import com.datastax.oss.driver.api.core.session.ProgrammaticArguments;
import com.datastax.oss.driver.api.core.specex.SpeculativeExecutionPolicy;
import com.datastax.oss.driver.internal.core.context.DefaultDriverContext;
import java.io.File;
import java.util.Map;
import java.util.TreeMap;

/**
 * Loads a document as a session of the driver would, and prints for each profile its policy and the delays, in
 * milliseconds, after which that policy starts the second and each further execution.
 */
public final class Main {
  private static final int MORE_THAN_ANY = 20;

  public static void main(String[] arguments) {
    DriverConfigLoader loader = DriverConfigLoader.fromFile(new File(arguments[0]));
    DefaultDriverContext context = new DefaultDriverContext(loader, ProgrammaticArguments.builder().build());
    Map<String, SpeculativeExecutionPolicy> policies = new TreeMap<>(context.getSpeculativeExecutionPolicies());
    policies.forEach((profile, policy) -> System.out.println(profile + "=" + describe(policy)));
    loader.close();
  }

  private static String describe(SpeculativeExecutionPolicy policy) {
    StringBuilder text = new StringBuilder(policy.getClass().getSimpleName());
    for (int running = 1; running < MORE_THAN_ANY; running++) {
      long delay = policy.nextExecution(null, (CqlIdentifier) null, SimpleStatement.newInstance("SELECT"), running);
      if (delay < 0) {
        break;
      }
      text.append(' ').append(delay);
    }
    return text.toString();
  }
}
