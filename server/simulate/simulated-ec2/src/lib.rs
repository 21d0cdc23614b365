//! A simulated EC2 account over HTTP, for the real AWS SDKs: EC2, IAM and STS in the query protocol, SSM, Pricing,
//! SQS and EventBridge in the JSON protocol, EKS as REST, on one port. It shares no code with the adapter that it
//! judges, and has the actions and parameters that the adapter and its tests send (`account::operations`).
//!
//! Launched instances, their boot, interruption and end are those of [`cloud::simulated::SimulatedCloud`], which
//! another interface may serve at the same time. What EC2 knows beside it is in `account`, without I/O. `faults`
//! decides which calls fail, `call_log` records all calls.
//!
//! Sessions of roles are: a call with credentials that have expired or that STS never issued is refused, and one that
//! the policies of its role do not allow (`account::authorization`). Long-term credentials may do everything.
//!
//! Not simulated: signatures, and everything that no action here
//! shows. An action or parameter that is not simulated is refused with an error, never ignored.
//!
//! Reading order: [`SimulatedEc2`], `endpoint::http` (how a call is read and answered), `account`.

mod account;
mod api_error;
mod call_log;
mod catalogue;
mod endpoint;
mod faults;
mod query;
mod service;
mod settings;
mod value;

pub use account::InstanceProfile;
pub use call_log::{Call, FleetCall, FleetOverride, FleetProgress, Outcome};
pub use catalogue::{RegionCatalogue, SpotRow, TypeRow};
pub use endpoint::{Builder, SimulatedEc2};
pub use faults::{Delivery, Effect, FaultRule, Faults, Lag, PoolCapacity, Throttle};
pub use settings::{
    AccountSettings, Cluster, EKS_VERSIONS, Image, OwnershipTags, Reservation, Role, SecurityGroup, Subnet, Tags,
    TemplateSeed, VPC,
};
