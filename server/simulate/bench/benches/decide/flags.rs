//! The command line.

use std::path::PathBuf;

use clap::Parser;

/// Measure decisions: time, memory, cost and distance from the lower bound.
#[derive(Debug, Clone, Parser)]
pub struct Flags {
    /// Folder of traces (openb_pods_default.csv.gz, karp_diverse_*.csv.gz); without it, rows that
    /// need them are omitted
    #[arg(long, env = "FLEETWRIGHT_BENCH_DATA", value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// `consolidation` consolidates whole clusters; `cost` prints what plans cost with and without search, beside bounds and Karpenter; `random` plans random inputs beside the baseline; `quotes` measures quotes over whole fleets; `features` measures one feature at a time against a plain input, and fails where one costs
    /// too much
    #[arg(value_name = "TABLE", value_parser = ["consolidation", "cost", "features", "quotes", "random"])]
    pub table: Option<String>,
    /// Features at 1,000 pods only, without their growth
    #[arg(long)]
    pub small: bool,
    /// Only cases whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub only: String,
    /// Steps of the search in the cost table
    #[arg(long, value_name = "STEPS", default_value_t = model::input::SEARCH_STEPS)]
    pub search: u64,
    /// Verdicts of `consolidation` that are confirmed by brute force, for each cluster
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub verdicts: usize,
    /// Inputs of the table `random`
    #[arg(long, value_name = "COUNT", default_value_t = 200)]
    pub inputs: u64,
    /// Measured runs per case, after one that is not measured
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    /// Baseline: a program that implements the plan contract, run on the same files
    #[arg(long, env = "KARPENTER_REF", value_name = "PROGRAM")]
    pub baseline: Option<PathBuf>,
    /// Cases with more pods than this are not run on the baseline
    #[arg(long, value_name = "PODS", default_value_t = 1_000)]
    pub baseline_pods: usize,
    /// The fleetwright program compared with the baseline; by default the one built by `cargo build
    /// --release`
    #[arg(long, env = "FLEETWRIGHT", value_name = "PROGRAM")]
    pub fleetwright: Option<PathBuf>,
    /// Write the manifests of the chosen cases to this folder, one folder a case, and measure
    /// nothing
    #[arg(long, value_name = "DIR")]
    pub write: Option<PathBuf>,
    /// Measure this one case in this process and print JSON
    #[arg(long, hide = true)]
    pub case: Option<String>,
    /// Passed by `cargo bench`; ignored
    #[arg(long, hide = true)]
    pub bench: bool,
}
