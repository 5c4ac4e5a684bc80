//! What is typed: the command line and its help.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

const EXIT_CODES: &str = "Exit codes: 0 done, 1 refused, not done in time or something found wrong, 2 the command line or a file \
                          is not valid, 3 the API server, the operator or a source could not be reached.";

/// See what Hedgerow decided and why, and switch hedging off by hand.
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-hedge",
    bin_name = "kubectl hedge",
    version,
    about = "See what Hedgerow decided and why, and switch hedging off by hand",
    after_help = format!(
        "Examples:\n  \
         kubectl hedge status -A\n  \
         kubectl hedge explain kb-search -n helpdesk\n  \
         kubectl hedge off kb-search --reason INC-7\n  \
         kubectl hedge doctor\n\n{EXIT_CODES}"
    ),
    arg_required_else_help = true
)]
pub struct Cli {
    /// Which cluster, and where in it.
    #[command(flatten)]
    pub place: Place,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Which cluster, and where in it.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Cluster")]
pub struct Place {
    /// The namespace of the policies; unset: that of the context
    #[arg(short, long, global = true, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// The context of the kubeconfig; unset: its current one
    #[arg(long, global = true, value_name = "NAME")]
    pub context: Option<String>,
    /// The kubeconfig; unset: the one that kubectl uses
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The operator's namespace; unset: that of its Lease, or hedgerow-system where it may not be looked for
    #[arg(long, global = true, value_name = "NAMESPACE")]
    pub operator_namespace: Option<String>,
    /// The operator's Lease: leaderElection.lease in its configuration
    #[arg(long, global = true, value_name = "NAME", default_value = "hedgerow")]
    pub lease: String,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show what is decided of each target
    #[command(after_help = format!(
        "Examples:\n  kubectl hedge status\n  kubectl hedge status -A -o wide\n  kubectl hedge status -A -o json | jq \
         '.targets[] | select(.hedging != \"yes\")'\n\n\
         HEDGED is the share of the calls that are hedged, WINS the share of the hedges that answered first; both as they were \
         when the decision was written. What is not known is said, and never 0; in JSON it is null. SINCE is how long clients \
         have been told so.\n\n{EXIT_CODES}"
    ))]
    Status(StatusArgs),
    /// Explain why a policy's targets are hedged as they are, and what would have to change
    #[command(after_help = format!(
        "Examples:\n  kubectl hedge explain kb-search\n  kubectl hedge explain kb-search -n helpdesk -o json\n\n\
         The leading replica is asked for its last readings, through a port-forward to its pod. Where it cannot be reached the \
         status is shown alone, and that is said.\n\n{EXIT_CODES}"
    ))]
    Explain(ExplainArgs),
    /// Stop hedging: of a policy, of a namespace, or everywhere
    #[command(after_help = format!(
        "Examples:\n  kubectl hedge off kb-search --reason INC-7\n  kubectl hedge off -n helpdesk --yes --reason 'load test'\n  \
         kubectl hedge off --all --reason INC-7\n\n\
         It is written into the ConfigMap hedgerow-off, of the policy's namespace or, with --all, of the operator's. Stops add \
         up: each stays until it is lifted by the command that names the same.\n\n{EXIT_CODES}"
    ))]
    Off(OffArgs),
    /// Lift a stop: of a policy, of a namespace, or the one of everything
    #[command(after_help = format!(
        "Examples:\n  kubectl hedge on kb-search\n  kubectl hedge on -n helpdesk --yes\n  kubectl hedge on --all\n\n\
         Hedging comes back through the policy's cooldown and ramp. What another stop still holds stays off, and is said.\n\n{EXIT_CODES}"
    ))]
    On(OnArgs),
    /// Show the last changes of what clients are told
    #[command(after_help = format!(
        "Examples:\n  kubectl hedge history kb-search\n  kubectl hedge history kb-search -o json\n\n{EXIT_CODES}"
    ))]
    History(NamedArgs),
    /// Show what policies in files would publish, as a difference to what is published
    #[command(after_help = format!(
        "Examples:\n  kubectl hedge plan -f policy.yaml\n  kubectl hedge plan -f policies/ -R\n  \
         kubectl hedge plan -f policy.yaml --prometheus http://127.0.0.1:9090\n  \
         kubectl hedge plan -f policy.yaml --config operator.yaml\n\n\
         The leading replica is asked to plan by its own sources, through a port-forward to its pod, unless --prometheus or \
         --config says what to read instead. Nothing is written. It decides from an empty memory, as hedgerow plan does: a target that may hedge is shown as it \
         would be after the ramp. The revision, the UID and the times of native documents are left out of the \
         comparison.\n\n\
         Exit codes: 0 nothing would change, 1 something would or a reading is unknown, 2 a policy or the command line is not \
         valid, 3 the API server, the operator or a source could not be reached."
    ))]
    Plan(PlanArgs),
    /// Look for what is wrong with the installation and the policies, and say what to do
    #[command(after_help = format!(
        "Examples:\n  kubectl hedge doctor\n  kubectl hedge doctor -n helpdesk\n\n\
         Looks at the CRD, the operator and its rights, each policy's signals and documents, the pods that mount them, and the \
         stops in force; of all namespaces, or of the one given. What may not be looked at is said.\n\n\
         Exit codes: 0 nothing is wrong, 1 something is, 2 the command line is not valid, 3 the API server could not be reached."
    ))]
    Doctor(DoctorArgs),
    /// Print a completion script for a shell
    #[command(after_help = "Examples:\n  \
        source <(kubectl hedge completion bash)        completes kubectl-hedge\n  \
        ln -s \"$(command -v kubectl-hedge)\" ~/bin/kubectl_complete-hedge        completes kubectl hedge, by kubectl itself")]
    Completion {
        /// The shell.
        shell: Shell,
    },
    /// Print the manual page, or with a folder write one of each command there
    #[command(
        after_help = "Examples:\n  kubectl hedge man | man -l -\n  kubectl hedge man --into /usr/local/share/man/man1"
    )]
    Man {
        /// Write kubectl-hedge.1, kubectl-hedge-status.1 and so on into this folder
        #[arg(long, value_name = "FOLDER")]
        into: Option<PathBuf>,
    },
}

/// How to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For programs; a stable interface.
    Json,
    /// The same, as YAML.
    Yaml,
}

/// How `status` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TableFormat {
    /// For programs; a stable interface.
    Json,
    /// The same, as YAML.
    Yaml,
    /// A table with more columns.
    Wide,
}

/// `kubectl hedge status`
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Of one policy alone
    pub name: Option<String>,
    /// Of all namespaces
    #[arg(short = 'A', long, conflicts_with = "name")]
    pub all_namespaces: bool,
    /// How to print; unset: a table
    #[arg(short, long, value_enum)]
    pub output: Option<TableFormat>,
}

/// What concerns one policy.
#[derive(Debug, Args)]
pub struct NamedArgs {
    /// The policy
    pub name: String,
    /// How to print; unset: for people
    #[arg(short, long, value_enum)]
    pub output: Option<Format>,
}

/// How to reach the leading replica.
#[derive(Clone, Debug, Args)]
pub struct LeaderArgs {
    /// Where its explanations are, where you forward the port yourself: http://127.0.0.1:8081
    #[arg(long, value_name = "URL")]
    pub operator_url: Option<http::Uri>,
    /// The port of its explanations: listen.explain in its configuration
    #[arg(long, value_name = "PORT", default_value_t = 8081)]
    pub operator_port: u16,
}

/// `kubectl hedge explain`
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The policy
    #[command(flatten)]
    pub policy: NamedArgs,
    /// How to reach the leading replica.
    #[command(flatten)]
    pub leader: LeaderArgs,
}

/// What is stopped, or no longer.
#[derive(Debug, Args)]
pub struct Extent {
    /// A policy; without it, and without --all: the whole namespace
    pub name: Option<String>,
    /// Everything that the operator works for
    #[arg(long, conflicts_with_all = ["name", "namespace"])]
    pub all: bool,
    /// Do not ask before the whole namespace is concerned
    #[arg(short, long)]
    pub yes: bool,
}

/// `kubectl hedge off`
#[derive(Debug, Args)]
pub struct OffArgs {
    /// What is stopped.
    #[command(flatten)]
    pub extent: Extent,
    /// Why, for those who find it
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Whether to wait until every policy concerned is off
    #[arg(long, value_name = "true|false", default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub wait: bool,
    /// How many seconds to wait at most
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub timeout: u64,
}

/// `kubectl hedge on`
#[derive(Debug, Args)]
pub struct OnArgs {
    /// What is no longer stopped.
    #[command(flatten)]
    pub extent: Extent,
}

/// `kubectl hedge plan`
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("from").args(["prometheus", "config", "operator_url"]))]
pub struct PlanArgs {
    /// File with policies, one or many YAML or JSON documents; - reads standard input, and a folder stands for the
    /// .yaml, .yml and .json files in it. May be repeated
    #[arg(short, long = "filename", value_name = "FILE", required = true, num_args = 1..)]
    pub files: Vec<PathBuf>,
    /// Read the folders in a folder, too
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Read every source from this Prometheus, instead of asking the operator
    #[arg(long, value_name = "URL")]
    pub prometheus: Option<String>,
    /// Read the sources that this operator configuration declares, within its ceilings, instead of asking the operator
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// How to reach the leading replica.
    #[command(flatten)]
    pub leader: LeaderArgs,
    /// How to print; unset: for people
    #[arg(short, long, value_enum)]
    pub output: Option<Format>,
}

/// `kubectl hedge doctor`
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// The operator's service account; unset: that of the leading replica's pod, or hedgerow
    #[arg(long, value_name = "NAME")]
    pub service_account: Option<String>,
    /// How to print; unset: for people
    #[arg(short, long, value_enum)]
    pub output: Option<Format>,
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
    fn all_and_a_name_or_a_namespace_contradict_each_other() {
        for line in ["off --all kb", "off --all -n shop", "on --all kb"] {
            let words = ["kubectl-hedge"].into_iter().chain(line.split(' '));
            assert!(Cli::try_parse_from(words).is_err(), "{line}");
        }
    }

    #[test]
    fn help_speaks_of_the_command_as_it_is_typed() {
        let mut command = Cli::command();
        command.build();
        for sub in command.get_subcommands_mut() {
            let help = sub.render_long_help().to_string();
            assert!(help.contains("Usage: kubectl hedge "), "{help}");
        }
    }
}
