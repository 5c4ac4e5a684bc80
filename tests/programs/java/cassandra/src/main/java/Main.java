import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.antlr.runtime.ANTLRStringStream;
import org.antlr.runtime.Token;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.cql3.CqlLexer;
import org.apache.cassandra.cql3.QueryProcessor;
import org.apache.cassandra.cql3.statements.schema.AlterTableStatement;
import org.apache.cassandra.cql3.statements.schema.CreateTableStatement;
import org.apache.cassandra.schema.KeyspaceMetadata;
import org.apache.cassandra.schema.KeyspaceParams;
import org.apache.cassandra.schema.Keyspaces;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.Tables;
import org.apache.cassandra.service.ClientState;

/**
 * Carries out the statements of a document on a schema in memory, with the server's own parser, and prints the
 * speculative retry of each table. The tables that exist are the arguments after the document: keyspace, table, and so on.
 */
public final class Main {
  public static void main(String[] arguments) throws Exception {
    DatabaseDescriptor.clientInitialization();
    Keyspaces schema = schemaOf(arguments);
    for (String statement : statementsOf(Files.readString(Path.of(arguments[0])))) {
      AlterTableStatement.Raw parsed = (AlterTableStatement.Raw) QueryProcessor.parseStatement(statement);
      schema = parsed.prepare(ClientState.forInternalCalls()).apply(schema);
    }
    for (KeyspaceMetadata keyspace : schema) {
      for (TableMetadata table : keyspace.tables) {
        System.out.println(keyspace.name + "." + table.name + "=" + table.params.speculativeRetry);
      }
    }
  }

  private static Keyspaces schemaOf(String[] arguments) {
    Keyspaces schema = Keyspaces.none();
    for (int at = 1; at + 1 < arguments.length; at += 2) {
      String create = "CREATE TABLE \"" + arguments[at + 1] + "\" (id int PRIMARY KEY)";
      TableMetadata table = CreateTableStatement.parse(create, arguments[at]).build();
      Tables others = schema.get(arguments[at]).map(keyspace -> keyspace.tables).orElse(Tables.none());
      schema = schema.withAddedOrUpdated(
          KeyspaceMetadata.create(arguments[at], KeyspaceParams.simple(1), others.with(table)));
    }
    return schema;
  }

  /** A shell hands statements to the server one by one: cuts them apart where the server's lexer sees a semicolon. */
  private static List<String> statementsOf(String document) throws Exception {
    List<String> statements = new ArrayList<>();
    CqlLexer lexer = new CqlLexer(new ANTLRStringStream(document));
    int from = 0;
    for (Token token = lexer.nextToken(); token.getType() != Token.EOF; token = lexer.nextToken()) {
      if (";".equals(token.getText())) {
        int to = ((org.antlr.runtime.CommonToken) token).getStopIndex() + 1;
        statements.add(document.substring(from, to));
        from = to;
      }
    }
    if (!document.substring(from).isBlank()) {
      statements.add(document.substring(from));
    }
    return statements;
  }
}
