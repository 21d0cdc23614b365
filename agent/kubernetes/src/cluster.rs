//! A Kubernetes API server behind the agent's port.

use std::sync::Arc;
use std::time::Duration;

use agent::{Cluster, ClusterError, Done, Identity, Observed};
use fleetwright_proto::v1;
use tokio::task::JoinSet;

use crate::api::Api;
use crate::autoscaler;
use crate::epoch::EpochStore;
use crate::error::ApiError;
use crate::hints::{self, Registrations};
use crate::obey;
use crate::obey::drain::roster::Roster;
use crate::obey::drain::volumes::Attachments;
use crate::obey::drain::{self, Ordered};
use crate::obey::event::{Events, Said};
use crate::obey::guard::Guard;
use crate::picture::Picture;
use crate::watch;

/// A picture that is not complete by then is reported as missing; the next attempt waits again.
const PATIENCE: Duration = Duration::from_secs(60);

/// How an agent conducts itself in its cluster.
#[derive(Debug)]
pub struct Conduct {
    /// Whoever this process is, for people who read events.
    pub instance: String,
    /// Whether the API server is asked to stream what is there; otherwise it is asked for lists in pages.
    pub streaming_lists: bool,
    /// A person has said that no Karpenter is at work there.
    pub karpenter_absent: bool,
    /// What is not done, whatever a server says.
    pub guard: Guard,
}

/// A cluster.
pub struct Kubernetes {
    api: Api,
    identity: Identity,
    /// Whoever this process is, for people who read events.
    instance: String,
    picture: Arc<Picture>,
    epochs: EpochStore,
    events: Events,
    registrations: Registrations,
    ordered: Ordered,
    guard: Guard,
    roster: Roster,
    attachments: Attachments,
    /// The watches; they end with the cluster.
    _watches: JoinSet<()>,
}

impl Kubernetes {
    /// Begins to watch a cluster. `epochs` is where the highest epoch is kept.
    #[must_use]
    pub fn watch(api: Api, identity: Identity, epochs: EpochStore, conduct: Conduct) -> Self {
        let picture = Arc::new(watch::blank());
        let mut watches = watch::begin(&api, &picture, conduct.streaming_lists);
        watches.spawn(autoscaler::look_out(api.clone(), Arc::clone(&picture), conduct.karpenter_absent));
        Self::of(api, identity, epochs, conduct, picture, watches)
    }

    /// A cluster that these watches show.
    fn of(
        api: Api,
        identity: Identity,
        epochs: EpochStore,
        conduct: Conduct,
        picture: Arc<Picture>,
        watches: JoinSet<()>,
    ) -> Self {
        Self {
            api,
            identity,
            instance: conduct.instance,
            picture,
            epochs,
            events: Events::default(),
            registrations: Registrations::default(),
            ordered: Ordered::default(),
            guard: conduct.guard,
            roster: Roster::default(),
            attachments: Attachments::default(),
            _watches: watches,
        }
    }

    /// A cluster that nobody watches: its picture is what is put into it.
    #[cfg(test)]
    pub(crate) fn unwatched(api: Api, guard: Guard) -> Self {
        let epochs = EpochStore::new(api.clone(), "default".to_owned(), "epochs".to_owned());
        let conduct = Conduct { instance: "test".to_owned(), streaming_lists: true, karpenter_absent: false, guard };
        Self::of(api, Identity::default(), epochs, conduct, Arc::new(watch::blank()), JoinSet::new())
    }

    /// The picture, for what shows the cluster in a test.
    #[cfg(test)]
    pub(crate) fn shared_picture(&self) -> Arc<Picture> {
        Arc::clone(&self.picture)
    }

    /// Goes on with the drains that were under way when the replica that worked before ended. Completes when they do.
    pub async fn go_on_with_drains(self: Arc<Self>) {
        let mut drains = JoinSet::new();
        for (node, note) in self.picture.annotated_nodes(drain::NOTE).await {
            let cluster = Arc::clone(&self);
            drains.spawn(async move { drain::go_on(&cluster, &node, &note).await });
        }
        while drains.join_next().await.is_some() {}
    }

    pub(crate) fn api(&self) -> &Api {
        &self.api
    }

    pub(crate) fn picture(&self) -> &Picture {
        &self.picture
    }

    pub(crate) fn registrations(&self) -> &Registrations {
        &self.registrations
    }

    pub(crate) fn ordered(&self) -> &Ordered {
        &self.ordered
    }

    pub(crate) fn guard(&self) -> &Guard {
        &self.guard
    }

    pub(crate) fn roster(&self) -> &Roster {
        &self.roster
    }

    pub(crate) fn attachments(&self) -> &Attachments {
        &self.attachments
    }

    /// Whether this cluster's scheduler honours placement hints.
    pub(crate) fn may_hint(&self) -> bool {
        hints::are_honoured(&self.identity.kubernetes_version)
    }

    pub(crate) async fn say(&self, said: &Said, uid: &str) -> Result<(), ApiError> {
        self.events.say(&self.api, &self.instance, said, uid).await
    }
}

impl Cluster for Kubernetes {
    fn identity(&self) -> Identity {
        self.identity.clone()
    }

    async fn observe(&self) -> Result<Observed, ClusterError> {
        self.picture.observe(PATIENCE).await
    }

    async fn carry_out(&self, instruction: v1::Instruction) -> Done {
        obey::obey(self, &instruction).await
    }

    async fn highest_epoch(&self) -> Result<u64, ClusterError> {
        self.epochs.read().await.map_err(|error| cannot("read the highest epoch", &error))
    }

    async fn raise_epoch(&self, epoch: u64) -> Result<(), ClusterError> {
        self.epochs.raise(epoch).await.map_err(|error| cannot("store the highest epoch", &error))
    }
}

fn cannot(tried: &str, error: &ApiError) -> ClusterError {
    ClusterError { tried: tried.to_owned(), reason: error.to_string() }
}
