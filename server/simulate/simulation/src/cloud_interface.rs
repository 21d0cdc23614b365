//! How servers reach the simulated cloud.

/// The interface by which servers reach the simulated cloud.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CloudInterface {
    /// The cloud's own.
    #[default]
    Simulated,
    /// EC2 over HTTP, with the AWS SDK.
    Ec2,
}
