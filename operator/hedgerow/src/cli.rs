//! What is typed: the command line and its help.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

/// Keeps request hedging tuned and safe.
#[derive(Debug, Parser)]
#[command(
    name = "hedgerow",
    version,
    about = "Keeps request hedging tuned and safe",
    long_about = "Hedgerow reads latency histograms and saturation signals from Prometheus, recomputes the hedge delay \
                  from a rolling window, caps the hedge budget, switches hedging off under saturation, and publishes \
                  the result in ConfigMaps that clients read. What is hedged is said by HedgePolicy objects.",
    after_help = "Try a policy before it is installed anywhere:\n  \
                  hedgerow plan -f policy.yaml --prometheus http://127.0.0.1:9090",
    arg_required_else_help = true
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the operator in a cluster
    #[command(
        long_about = "Runs the operator until SIGTERM: watches HedgePolicy objects, samples their signals, and publishes \
                  what it decides. Of several replicas one leads. The cluster is the one that KUBECONFIG names, or the \
                  one that the pod runs in."
    )]
    Run(RunArgs),
    /// Show what the operator would decide for policies in files, and why
    #[command(
        long_about = "Reads HedgePolicy objects from files, asks Prometheus what their signals say now, and shows what the \
                  operator would decide, why, and the documents it would publish. It touches no cluster, so it serves \
                  on a laptop and in a pull request. It starts with nothing remembered: a target that may hedge is \
                  shown as it would be after the ramp."
    )]
    Plan(PlanArgs),
    /// Ask the operator of a cluster to decide for a policy that hedges nothing, and see that it does
    Check(crate::check::CheckArgs),
    /// Print the CustomResourceDefinition of HedgePolicy
    #[command(after_help = "Install it:\n  hedgerow crd | kubectl apply --server-side -f -")]
    Crd,
    /// Print the JSON Schema of the document that clients read
    Schema,
    /// Print a completion script for a shell
    #[command(after_help = "Example:\n  source <(hedgerow completions bash)")]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page, or with a folder write one of each command there
    #[command(
        after_help = "Examples:\n  hedgerow man | man -l -\n  hedgerow man --into /usr/local/share/man/man1"
    )]
    Man {
        /// Write hedgerow.1, hedgerow-run.1 and so on into this folder
        #[arg(long, value_name = "FOLDER")]
        into: Option<PathBuf>,
    },
}

/// `hedgerow run`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
                  hedgerow run --config /etc/hedgerow/operator.yaml\n\n\
                  Every key of the file is described in examples/operator.yaml.\n\
                  HEDGEROW_LOG sets what is logged: HEDGEROW_LOG=info,hedgerow=debug\n\n\
                  Exit codes: 0 asked to stop, 1 a part failed or the lease was lost, 2 the configuration is not valid.")]
pub struct RunArgs {
    /// The operator's configuration: sources, watched namespaces, leader election
    #[arg(long, value_name = "FILE", env = "HEDGEROW_CONFIG")]
    pub config: PathBuf,
    /// How logs are written: text for people, json for collectors
    #[arg(long, value_enum, default_value_t = LogFormat::Json)]
    pub log_format: LogFormat,
    /// Send traces to this collector, by OTLP over HTTP: its base URL, such as http://localhost:4318
    #[arg(long, value_name = "URL", env = "OTEL_EXPORTER_OTLP_ENDPOINT")]
    pub otlp_endpoint: Option<String>,
}

/// How logs are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// `hedgerow plan`
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("from").required(true),
    after_help = "Examples:\n  \
                  hedgerow plan -f policy.yaml --prometheus http://127.0.0.1:9090\n  \
                  kubectl get hp kb-search -o yaml | hedgerow plan -f - --prometheus http://127.0.0.1:9090\n  \
                  hedgerow plan -f a.yaml -f b.yaml --config operator.yaml | jq .targets[].delayMs\n\n\
                  Exit codes: 0 decided, 1 some reading is unknown, 2 a policy or the command line is not valid,\n\
                  3 a source could not be reached."
)]
pub struct PlanArgs {
    /// File with policies, one or many YAML or JSON documents; - reads standard input, and a folder stands for the
    /// .yaml, .yml and .json files in it. May be repeated
    #[arg(short, long = "filename", value_name = "FILE", required = true, num_args = 1..)]
    pub files: Vec<PathBuf>,
    /// Read the folders in a folder, too
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Read every source from this Prometheus
    #[arg(long, value_name = "URL", group = "from")]
    pub prometheus: Option<String>,
    /// Read the sources that this operator configuration declares, within its ceilings
    #[arg(long, value_name = "FILE", group = "from")]
    pub config: Option<PathBuf>,
    /// Namespace of policies that do not say theirs
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    pub namespace: String,
    /// How to print; unset: table on a terminal, json into a pipe
    #[arg(short, long, value_enum)]
    pub output: Option<Output>,
}

/// How `plan` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    Table,
    /// For programs; a stable interface.
    Json,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn plan_without_a_source_says_what_to_add() {
        let error = Cli::try_parse_from(["hedgerow", "plan", "-f", "policy.yaml"]).unwrap_err();
        assert!(error.to_string().contains("--prometheus <URL>"), "{error}");
    }

    #[test]
    fn plan_reads_from_one_kind_of_source() {
        let both = [
            "hedgerow",
            "plan",
            "-f",
            "p.yaml",
            "--prometheus",
            "http://x",
            "--config",
            "c.yaml",
        ];
        assert!(Cli::try_parse_from(both).is_err());
    }
}
