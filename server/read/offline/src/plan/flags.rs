//! Flags of `fleetwright plan` (plan contract §2).

use clap::{Args, ValueEnum};
use controller::FeatureGates;
use model::input::{MinValuesPolicy, PreferencePolicy};
use model::{MicroUsd, Timestamp};
use planning_input::AutoscaledReplicas;

use super::compare::Other;
use command::exit::Failure;
use command::sources::InputFlags;
use server_settings::{parse_dollars, parse_feature_gates};

/// Output format of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For terminals.
    Table,
    /// As table, with a row for each node and the names of its pods.
    Wide,
    /// Names of the nodes to launch, one a line.
    Name,
    /// Machine-readable.
    Json,
    /// The JSON document as YAML.
    Yaml,
    /// A report for a comment on a pull request, in the Markdown of GitHub.
    Markdown,
    /// A drawing of the packing: a self-contained SVG file.
    Svg,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum Preferences {
    /// Soft constraints are preferred.
    Respect,
    /// Soft constraints are ignored.
    Ignore,
}

impl From<Preferences> for PreferencePolicy {
    fn from(flag: Preferences) -> Self {
        match flag {
            Preferences::Respect => Self::Respect,
            Preferences::Ignore => Self::Ignore,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum MinValues {
    /// A pool whose `minValues` cannot be satisfied is not used.
    Strict,
    /// As many values as available are sufficient.
    BestEffort,
}

impl From<MinValues> for MinValuesPolicy {
    fn from(flag: MinValues) -> Self {
        match flag {
            MinValues::Strict => Self::Strict,
            MinValues::BestEffort => Self::BestEffort,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Hpa {
    /// `minReplicas`.
    Min,
    /// `maxReplicas`.
    Max,
}

impl From<Hpa> for AutoscaledReplicas {
    fn from(flag: Hpa) -> Self {
        match flag {
            Hpa::Min => Self::Min,
            Hpa::Max => Self::Max,
        }
    }
}

/// Plan pending pods from manifests: which nodes to launch, where every pod is placed, the cost,
/// and reasons
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 every planned pod is placed; 1 some pod fits nowhere, or --max-usd is exceeded; \
                        2 the input is refused; 3 internal failure."
)]
pub struct PlanFlags {
    #[command(flatten)]
    pub(super) input: InputFlags,
    /// Region to plan for; derived from the manifests when absent
    #[arg(long)]
    pub region: Option<String>,
    /// Zones with subnets of EC2NodeClasses without a status; all zones of the region when absent
    #[arg(long, value_name = "ZONE,...", value_delimiter = ',')]
    pub zones: Vec<String>,
    /// Catalogue file, or - for standard input, that overrides the built-in instance types and
    /// prices (format: `fleetwright catalogue export`)
    #[arg(long, value_name = "FILE")]
    pub catalogue: Option<String>,
    /// Scheduler configuration with default topology spread constraints: a
    /// KubeSchedulerConfiguration, or `podTopologySpread: {defaultConstraints: [...]}`; their
    /// selectors are derived from Services and controllers
    #[arg(long, value_name = "FILE")]
    pub scheduler_config: Option<String>,
    /// Further schedulers (spec.schedulerName) whose pods are planned, because they place pods by
    /// kube-scheduler's rules, separated by commas
    #[arg(long, value_name = "NAME,...", default_value = "")]
    pub schedulers: String,
    /// Remaining instances of a capacity reservation; repeatable
    #[arg(long = "reservation", value_name = "ID=N", value_parser = parse_reservation)]
    pub reservations: Vec<(String, i64)>,
    /// Replicas of a workload that states none and that a HorizontalPodAutoscaler scales
    #[arg(long, value_enum, default_value = "min")]
    pub(crate) hpa: Hpa,
    /// Refuse fields that do not exist, and fields of Karpenter objects that their version does not
    /// have, instead of ignoring or converting them; objects of older versions are read
    #[arg(long)]
    pub strict: bool,
    /// Whether soft constraints are respected
    #[arg(long, value_enum, default_value = "Respect", ignore_case = true)]
    pub(crate) preference_policy: Preferences,
    /// Behaviour when minValues cannot be satisfied
    #[arg(long, value_enum, default_value = "Strict", ignore_case = true)]
    pub(crate) min_values_policy: MinValues,
    /// Maximum vCPUs of a launched node; the annotation fleetwright.dev/max-node-vcpu of a NodePool
    /// takes precedence
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    pub max_node_vcpu: Option<i64>,
    /// Minimum number of new nodes of a NodePool that launches any; the annotation
    /// fleetwright.dev/min-nodes takes precedence
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    pub min_nodes: Option<i64>,
    /// What each node costs per hour beside its price, in choices only; its volumes when absent. The
    /// annotation fleetwright.dev/node-overhead-usd of a NodePool takes precedence
    #[arg(long, value_name = "DOLLARS", value_parser = parse_usd)]
    pub node_overhead_usd: Option<MicroUsd>,
    /// Print timings and memory as one JSON line on standard error
    #[arg(long)]
    pub timings: bool,
    /// Steps of the search for cheaper plans, of about 50 nanoseconds each; 0 is the first packing only
    #[arg(long, value_name = "STEPS", default_value_t = model::input::SEARCH_STEPS)]
    pub search: u64,
    /// Random seed of the search, and of the realised cost
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Assume that each pod gets its planned node as status.nominatedNodeName, so that
    /// kube-scheduler binds it there and the realised cost is the planned one
    #[arg(long)]
    pub(crate) hints: bool,
    /// Explain one pod instead of printing the plan; without a namespace, one in `default`
    #[arg(long, value_name = "[NAMESPACE/]POD", conflicts_with = "explain_node")]
    pub explain: Option<String>,
    /// Explain one node of the plan instead of printing the plan
    #[arg(long, value_name = "NODE")]
    pub(crate) explain_node: Option<String>,
    /// Show beside the plan what another autoscaler would launch for the same pods: this program's own
    /// rendering of its algorithm, one round with the same catalogue and prices
    #[arg(long, value_enum, value_name = "NAME", conflicts_with_all = ["explain", "explain_node"])]
    pub compare: Option<Other>,
    /// Repack a running cluster: its pods are planned as if they were pending, except those that a
    /// PodDisruptionBudget, an annotation or a local volume holds at --now. Prints what the nodes cost
    /// now, what is needed, and what the holds cost. Nothing is changed in the cluster
    #[arg(long)]
    pub(crate) repack: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value = "table")]
    pub output: Output,
    /// Exit with 1 when the new nodes cost more than this many dollars per hour
    #[arg(long, value_name = "DOLLARS", value_parser = parse_usd)]
    pub(crate) max_usd: Option<MicroUsd>,
    /// Time of the plan (RFC 3339); the current time when absent
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub now: Option<Timestamp>,
    /// Plan the disruption of a running cluster: which nodes may be removed or replaced at --now, and what
    /// holds each of the others. Nothing is changed in the cluster
    #[arg(long, conflicts_with_all = ["repack", "compare", "explain", "explain_node", "max_usd"])]
    pub(crate) disrupt: bool,
    /// Features of --disrupt that are off by default: SpotToSpotConsolidation=true,NodeRepair=true
    #[arg(long, value_name = "GATE=BOOLEAN,...", value_parser = parse_gates, requires = "disrupt", default_value = "")]
    pub(crate) feature_gates: FeatureGates,
    /// What a consolidation must save per hour at least, beyond --churn-price-usd
    #[arg(long, value_name = "DOLLARS", value_parser = parse_usd, requires = "disrupt")]
    pub(crate) min_savings_usd: Option<MicroUsd>,
    /// What a consolidation must save per hour for each pod that it moves
    #[arg(long, value_name = "DOLLARS", value_parser = parse_usd, requires = "disrupt")]
    pub(crate) churn_price_usd: Option<MicroUsd>,
}

impl PlanFlags {
    /// # Errors
    /// [`Failure`] when a plan of disruption is wanted in a format that does not have it.
    pub(super) fn refuse_disruption_without_a_document(&self) -> Result<(), Failure> {
        let format = match self.output {
            Output::Wide => "wide",
            Output::Name => "name",
            Output::Svg => "svg",
            Output::Table | Output::Json | Output::Yaml | Output::Markdown => return Ok(()),
        };
        Err(Failure::refused(format!("--disrupt is not printed as {format}; use -o table, json, yaml or markdown")))
    }

    /// # Errors
    /// [`Failure`] when a comparison is wanted in a format that does not have it.
    pub(super) fn refuse_comparison_without_a_table(&self) -> Result<(), Failure> {
        if self.compare.is_none() {
            return Ok(());
        }
        let (format, what) = match self.output {
            Output::Svg => ("svg", "draws the plan"),
            Output::Name => ("name", "prints the names of the nodes"),
            Output::Table | Output::Wide | Output::Json | Output::Yaml | Output::Markdown => return Ok(()),
        };
        Err(Failure::refused(format!(
            "--compare has no effect with -o {format}, which only {what}; leave one of them out"
        )))
    }

    /// # Errors
    /// [`Failure`] when an explanation, which is text, is wanted in another format.
    pub(super) fn refuse_documents_of_reports(&self) -> Result<(), Failure> {
        let flag = match (&self.explain, &self.explain_node) {
            (Some(_), _) => "--explain",
            (None, Some(_)) => "--explain-node",
            (None, None) => return Ok(()),
        };
        if self.output == Output::Table {
            return Ok(());
        }
        Err(Failure::refused(format!(
            "{flag} prints text only; leave out -o, or leave out {flag}: -o json has the reasons of every pod"
        )))
    }

    /// # Errors
    /// [`Failure`] when several flags read standard input, of which only the first would see anything.
    pub(super) fn refuse_two_readers_of_stdin(&self) -> Result<(), Failure> {
        let paths = self.input.paths();
        let files = paths.iter().map(|path| ("-f", path.as_str()));
        let catalogue = self.catalogue.iter().map(|path| ("--catalogue", path.as_str()));
        let scheduler_config = self.scheduler_config.iter().map(|path| ("--scheduler-config", path.as_str()));
        let all = files.chain(catalogue).chain(scheduler_config);
        let mut readers: Vec<&str> = all.filter(|(_, path)| *path == "-").map(|(flag, _)| flag).collect();
        readers.dedup();
        match readers.as_slice() {
            [first, second, ..] => Err(Failure::refused(format!(
                "{first} - and {second} - both read standard input; pass one of them as a file"
            ))),
            _ => Ok(()),
        }
    }
}

/// An invalid value of a flag.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum FlagError {
    #[error("{0:?} is not ID=N, such as cr-0123456789abcdef0=4")]
    Reservation(String),
    #[error("{0:?} is not an amount of dollars; use a number with at most six decimals, such as 12.5")]
    Usd(String),
    #[error("{0:?} is not a list of feature gates; use one such as SpotToSpotConsolidation=true,NodeRepair=true")]
    FeatureGates(String),
    #[error("{0:?} is not an RFC 3339 time; use one such as 2026-01-31T12:00:00Z")]
    Time(String),
}

fn parse_reservation(text: &str) -> Result<(String, i64), FlagError> {
    let wrong = || FlagError::Reservation(text.to_owned());
    let (id, number) = text.split_once('=').ok_or_else(wrong)?;
    let number: i64 = number.parse().map_err(|_| wrong())?;
    if id.is_empty() || number < 0 { Err(wrong()) } else { Ok((id.to_owned(), number)) }
}

fn parse_gates(text: &str) -> Result<FeatureGates, FlagError> {
    if text.is_empty() {
        return Ok(FeatureGates::default());
    }
    parse_feature_gates(text).ok_or_else(|| FlagError::FeatureGates(text.to_owned()))
}

/// Parses dollars with at most six decimals, exactly.
fn parse_usd(text: &str) -> Result<MicroUsd, FlagError> {
    parse_dollars(text).ok_or_else(|| FlagError::Usd(text.to_owned()))
}

fn parse_time(text: &str) -> Result<Timestamp, FlagError> {
    let time: jiff::Timestamp = text.parse().map_err(|_| FlagError::Time(text.to_owned()))?;
    Ok(Timestamp::from_millis(time.as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_are_parsed_exactly() {
        assert_eq!(parse_usd("12.5"), Ok(MicroUsd(12_500_000)));
        assert_eq!(parse_usd("0.000001"), Ok(MicroUsd(1)));
        assert!(parse_usd("0.0000001").is_err());
        assert!(parse_usd("-1").is_err());
        assert!(parse_usd("1e3").is_err());
    }

    #[test]
    fn a_reservation_is_an_id_and_a_number() {
        assert_eq!(parse_reservation("cr-1=4"), Ok(("cr-1".to_owned(), 4)));
        assert!(parse_reservation("cr-1").is_err());
        assert!(parse_reservation("=4").is_err());
        assert!(parse_reservation("cr-1=-4").is_err());
    }

    #[test]
    fn time_is_parsed_to_the_millisecond() {
        // 2026-01-01 is 20,454 days after 1970-01-01: 20,454 × 86,400,000 ms.
        assert_eq!(parse_time("2026-01-01T00:00:00Z"), Ok(Timestamp::from_millis(1_767_225_600_000)));
        assert!(parse_time("yesterday").is_err());
    }
}
