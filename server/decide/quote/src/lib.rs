//! What pods would need, in which cluster, and at what price: quotes. They place, launch and change nothing.
//!
//! A [`PreparedCluster`] is the planning input of a cluster, prepared for any number of quotes while the cluster does not
//! change. [`PreparedCluster::quote`] plans the pods of a quote, all or none, on top of what runs, with the planner that
//! decides for the cluster. The verifier judges every plan. [`rank`] orders the answers of
//! clusters by price, odds and time.
//!
//! A quote is planned in two parts where no rule connects them: pods on existing nodes, on which one pod stands for the
//! running ones (`existing_nodes`, `condensed`), and launches for the others, which are planned once for all clusters with the same NodePools
//! and DaemonSets (`launch_setting`, `launch_plans`). Otherwise, and where the verifier refuses the two parts together, the
//! planner plans the cluster as a whole.
//!
//! Reading order: [`pod_set`] (what is asked), [`answer`] (what is answered), [`cluster`], `existing_nodes`, `condensed`, [`launch_setting`],
//! `launch_plans` and `combine` (how it is planned), [`context`], `launches` and `places` (a plan as an answer), [`ready`] and
//! [`ready_times`] (time to ready), [`rank`].

pub mod answer;
pub mod cluster;
mod combine;
mod condensed;
pub mod context;
mod existing_nodes;
mod launch_plans;
pub mod launch_setting;
mod launches;
mod places;
pub mod pod_set;
pub mod rank;
pub mod ready;
pub mod ready_times;

pub use answer::{Answer, Blocker, ClusterQuote, ExistingNodePods, Fit, NewNodes, PodCount, Quote};
pub use cluster::PreparedCluster;
pub use context::{QuoteContext, ReadyTimeOf};
pub use launch_plans::LaunchPlans;
pub use launch_setting::LaunchSettings;
pub use pod_set::{InvalidPodSets, MAX_PODS, PodSet, validate};
pub use rank::rank;
pub use ready::ReadyTime;
pub use ready_times::ReadyTimes;
