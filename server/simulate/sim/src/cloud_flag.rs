//! `--cloud` of simulations.

use clap::ValueEnum;
use simulation::CloudInterface;

/// How servers reach the simulated cloud.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CloudFlag {
    /// By its own interface
    Simulated,
    /// As EC2 over HTTP, by the AWS SDK (in a build with EC2)
    Ec2,
}

impl From<CloudFlag> for CloudInterface {
    fn from(flag: CloudFlag) -> Self {
        match flag {
            CloudFlag::Simulated => Self::Simulated,
            CloudFlag::Ec2 => Self::Ec2,
        }
    }
}
