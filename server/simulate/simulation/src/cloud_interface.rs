//! How servers reach the simulated cloud.

use clap::ValueEnum;

/// How servers reach the simulated cloud.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum CloudInterface {
    /// By its own interface
    #[default]
    Simulated,
    /// As EC2 over HTTP, by the AWS SDK (in a build with EC2)
    Ec2,
}
