//! The values of the server's keys.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use controller::FeatureGates;
use model::{BudgetLimit, MicroUsd};
use settings::{ConfigError, Origin};

use super::keys::{SCHEMA, find};
use super::value_type::{parse_dollars, parse_feature_gates, parse_node_limit};

/// The flag that sets what a trial needs.
pub const TRIAL_FLAG: &str = "dev";

/// Value and source of every key of the server.
#[derive(Debug, Clone)]
pub struct Layers(settings::Layers);

impl Default for Layers {
    fn default() -> Self {
        Self(settings::Layers::new(&SCHEMA))
    }
}

impl Deref for Layers {
    type Target = settings::Layers;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Layers {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl Layers {
    /// Has a local PostgreSQL store its data where a user without the rights of root can write: in
    /// the state folder of the XDG base directories. `variables` are those of the environment.
    pub fn use_state_folder_of_user(&mut self, variables: &BTreeMap<String, String>) {
        let folder = |name: &str| variables.get(name).filter(|path| path.starts_with('/'));
        let state = folder("XDG_STATE_HOME").cloned().or_else(|| Some(format!("{}/.local/state", folder("HOME")?)));
        if let Some(state) = state {
            self.set("store.data-dir", format!("{state}/fleetwright"), Origin::Default);
        }
    }

    /// Sets what a trial on a simulated cloud needs, whatever the file and the environment say: state in
    /// memory, and listeners that only this host can reach.
    pub fn add_trial(&mut self) {
        let default = |path: &'static str| (path, find(path).map_or("", |key| key.default));
        let listeners = [default("listen.grpc"), default("listen.http")];
        let others = [("store.memory", "true"), ("store.database-url", ""), ("cloud.accounts-file", "")];
        for (path, value) in listeners.into_iter().chain(others) {
            self.set(path, value.to_owned(), Origin::Flag(TRIAL_FLAG));
        }
    }

    /// `None` when it is unset.
    pub(super) fn node_limit(&self, path: &'static str) -> Result<Option<BudgetLimit>, ConfigError> {
        self.parsed(path, |value| if value.is_empty() { Some(None) } else { parse_node_limit(value).map(Some) })
    }

    pub(super) fn dollars(&self, path: &'static str) -> Result<MicroUsd, ConfigError> {
        self.parsed(path, parse_dollars)
    }

    pub(super) fn feature_gates(&self, path: &'static str) -> Result<FeatureGates, ConfigError> {
        self.parsed(path, parse_feature_gates)
    }
}
