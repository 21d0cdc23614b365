//! An account in one region: its state, and the actions on it. Without I/O: parameters and a time come in, values go
//! out. Launched instances and their states are the cloud's ([`SimulatedCloud`]).
//!
//! Reading order: [`operations`] (what is answered), [`context`] (what an action gets), [`region`] (what is sold),
//! [`launch_templates`], [`fleets`], [`instances`], then the others.

mod addresses;
mod authorization;
mod clusters;
mod context;
mod events;
mod fleets;
mod identity;
mod instance_profiles;
mod instance_type_offerings;
mod instance_types;
mod instances;
mod launch_templates;
mod network;
mod operations;
mod prices;
mod queues;
mod region;
mod rules;

use std::collections::BTreeMap;

use cloud::simulated::{ChangeKind, SimulatedCloud};
use model::Timestamp;

use self::fleets::Fleets;
use self::identity::Sessions;
use self::instance_profiles::InstanceProfiles;
use self::instances::Instances;
use self::instances::status::Reports;
use self::launch_templates::LaunchTemplates;
use self::queues::{Location, Queues};
use self::region::Region;
use self::rules::Rules;
use crate::api_error::ApiError;
use crate::faults::switchboard::Switchboard;
use crate::service::Service;
use crate::settings::AccountSettings;

pub(crate) use authorization::{Caller, Session};
pub(crate) use context::Context;
pub use instance_profiles::InstanceProfile;
pub(crate) use operations::Answer;

#[derive(Debug)]
pub(crate) struct Account {
    region: Region,
    templates: LaunchTemplates,
    instances: Instances,
    fleets: Fleets,
    profiles: InstanceProfiles,
    sessions: Sessions,
    reports: Reports,
    queues: Queues,
    rules: Rules,
    events: u64,
}

impl Account {
    pub(crate) fn new(settings: AccountSettings) -> Self {
        let location = Location { region: settings.region.clone(), account: settings.account.clone() };
        Self {
            queues: Queues::new(location.clone()),
            rules: Rules::new(location),
            events: 0,
            templates: LaunchTemplates::new(&settings.launch_templates),
            profiles: InstanceProfiles::new(&settings),
            region: Region::new(settings),
            instances: Instances::default(),
            fleets: Fleets::default(),
            sessions: Sessions::default(),
            reports: Reports::default(),
        }
    }

    /// Changes what the account contains beside what calls have made: launch templates and instance profiles of
    /// the settings are those of its beginning.
    pub(crate) fn change_settings(&mut self, change: impl FnOnce(&mut AccountSettings)) {
        let mut settings = self.region.settings().clone();
        change(&mut settings);
        self.profiles.set_roles(&settings.roles);
        self.region = Region::new(settings);
    }

    /// Instance profiles by name.
    pub(crate) fn instance_profiles(&self) -> &BTreeMap<String, InstanceProfile> {
        self.profiles.all()
    }

    /// Brings the account up to date with the cloud, and sends the events of what has changed.
    pub(crate) fn follow(&mut self, cloud: &SimulatedCloud, faults: &mut Switchboard, now: Timestamp) {
        for change in self.instances.follow(cloud) {
            if let ChangeKind::Interrupted { kind, ends } = change.kind {
                self.reports.record(&change.instance, kind, change.at, ends);
            }
            self.events += 1;
            let instance = cloud.describe(&change.instance).ok();
            if let Some(event) = events::event(&self.region, &change, instance, self.events) {
                self.rules.publish(&event, &mut self.queues, faults, now);
            }
        }
    }

    /// The session with this access key.
    pub(crate) fn session(&self, key: &str) -> Option<&Session> {
        self.sessions.find(key)
    }

    pub(crate) fn revoke_sessions(&mut self) {
        self.sessions.revoke();
    }

    /// The caller with this access key. Long-term credentials are not checked, and may do everything.
    ///
    /// # Errors
    /// The service's error for a session that has ended or is not known.
    pub(crate) fn authenticate(&self, key: &str, service: Service, now: Timestamp) -> Result<Caller, ApiError> {
        match self.sessions.authenticate(key, service, now)? {
            Some(session) => Caller::new(session, self.profiles.role(&session.role)),
            None => Ok(Caller::default()),
        }
    }
}

#[cfg(test)]
mod tests;
