//! The provider calls; each is sent once.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use aws_sdk_ec2::Client;
use aws_sdk_ec2::config::Credentials;
use aws_sdk_ec2::operation::describe_instances::builders::DescribeInstancesFluentBuilder;
use aws_sdk_ec2::types::{self, Filter, InstanceStateChange, InstanceStateName};
use cloud::notice::Notice;
use cloud::provider::{
    CloudError, CloudEvent, CloudProvider, Instance, InstanceState, LaunchOutcome, LaunchRequest, Owner, instance_id,
    is_denied,
};
use model::interruption::InterruptionKind;
use model::node_class::{NodeClassQuery, ResolvedNodeClass};
use model::{ClusterName, Text, Timestamp};
use tracing::warn;

use crate::call_budget::{CallBudget, LocalBudget};
use crate::clients::Connection;
use crate::failure::{ASSUME_ROLE, CREATE_FLEET, Failure, TEMPLATE_NOT_FOUND};
use crate::instance::{self, CLAIM, CLUSTER, MANAGED};
use crate::interruption::questions::NoticeQuestions;
use crate::interruption::queue::Queue;
use crate::interruption::setup::QueueSetup;
use crate::interruption::{shown, status};
use crate::launch_template::{CREATE_TEMPLATE, create_call};
use crate::launches::Launches;
use crate::nodeclass::NodeClassResolver;
use crate::request;
use crate::response::{self, RequestContext};
use crate::sessions::{ClusterClients, Sessions};
use crate::settings::Settings;
use crate::terms::Resolved;
use crate::watch::InstanceWatcher;

const DESCRIBE: &str = "DescribeInstances";
const DESCRIBE_STATUS: &str = "DescribeInstanceStatus";
const DESCRIBE_SPOT: &str = "DescribeSpotInstanceRequests";
const TERMINATE: &str = "TerminateInstances";

/// Code of `CreateLaunchTemplate` for a name in use.
const ALREADY_EXISTS: &str = "InvalidLaunchTemplateName.AlreadyExistsException";

/// Page size of a listing in reservations, EC2's maximum; a fleet of one instance is one
/// reservation.
const PAGE: i32 = 1_000;

/// Every state but `terminated`.
const LIVE_STATES: [InstanceStateName; 5] = [
    InstanceStateName::Pending,
    InstanceStateName::Running,
    InstanceStateName::ShuttingDown,
    InstanceStateName::Stopping,
    InstanceStateName::Stopped,
];

/// EC2 in one account and region.
pub struct Ec2Cloud {
    sessions: Arc<Sessions>,
    settings: Settings,
    clock: fn() -> Timestamp,
    watch: Mutex<InstanceWatcher>,
    pub(crate) launches: Arc<Launches>,
    node_classes: NodeClassResolver,
    notice_questions: NoticeQuestions,
}

impl fmt::Debug for Ec2Cloud {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ec2Cloud").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Ec2Cloud {
    /// EC2 by `settings`, with the default credential chain: environment, profile, web identity,
    /// container, instance. It is resolved at the first call.
    /// The known rate limits hold for this process alone.
    pub async fn connect(settings: Settings, clock: fn() -> Timestamp) -> Self {
        Self::connect_within(settings, clock, Arc::<LocalBudget>::default()).await
    }

    /// As [`Ec2Cloud::connect`]; `budget` admits the calls of EC2.
    pub async fn connect_within(settings: Settings, clock: fn() -> Timestamp, budget: Arc<dyn CallBudget>) -> Self {
        let connection = Connection::load(&settings.region, settings.endpoint.as_deref(), budget).await;
        Self::build(connection, settings, clock)
    }

    /// EC2 by `settings`, with explicit `credentials`. The known rate limits hold for this process alone.
    #[must_use]
    pub fn with_credentials(settings: Settings, credentials: Credentials, clock: fn() -> Timestamp) -> Self {
        Self::with_credentials_within(settings, credentials, clock, Arc::<LocalBudget>::default())
    }

    /// As [`Ec2Cloud::with_credentials`]; `budget` admits the calls of EC2.
    #[must_use]
    pub fn with_credentials_within(
        settings: Settings,
        credentials: Credentials,
        clock: fn() -> Timestamp,
        budget: Arc<dyn CallBudget>,
    ) -> Self {
        let endpoint = settings.endpoint.as_deref();
        let connection = Connection::with_credentials(&settings.region, endpoint, credentials, budget);
        Self::build(connection, settings, clock)
    }

    fn build(connection: Connection, settings: Settings, clock: fn() -> Timestamp) -> Self {
        let launches = Arc::<Launches>::default();
        let sessions = Arc::new(Sessions::new(connection, settings.roles.clone(), clock));
        let node_classes =
            NodeClassResolver::new(Arc::clone(&sessions), &settings.region, clock, Arc::clone(&launches));
        Self {
            sessions,
            settings,
            clock,
            watch: Mutex::default(),
            launches,
            node_classes,
            notice_questions: NoticeQuestions::default(),
        }
    }

    /// The queue of this name in the account and region.
    #[must_use]
    pub fn interruption_queue(&self, name: &str) -> Queue {
        Queue::new(self.sessions.shared().sqs.clone(), name, &self.settings.region, self.clock)
    }

    /// The queue of this name and its rules, to set them up.
    #[must_use]
    pub fn queue_setup(&self, queue: &str) -> QueueSetup {
        QueueSetup::new(self.sessions.shared().clone(), &self.settings.region, queue)
    }

    /// Clients for the changes of `cluster`, the one that the server has authenticated.
    fn clients_of(&self, cluster: &ClusterName) -> Result<ClusterClients, CloudError> {
        self.sessions.of(cluster).map_err(|error| Failure::unassumed(&error).of_call())
    }

    pub(crate) fn client(&self) -> &Client {
        &self.sessions.shared().ec2
    }

    pub(crate) fn pricing(&self) -> &aws_sdk_pricing::Client {
        &self.sessions.shared().pricing
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// What EC2 shows of these instances.
    async fn find_notices(&self, asked: Vec<(Text, InterruptionKind)>) -> Result<Vec<Notice>, CloudError> {
        let now = self.now();
        let ids = || filter("instance-id", asked.iter().map(|(id, _)| id.to_string()));
        let is_asked = |kind: InterruptionKind| asked.iter().any(|(_, one)| *one == kind);
        let described = described(self.client().describe_instances().filters(ids())).await?;
        let mut found: Vec<Notice> = described.iter().flat_map(|instance| shown::of_instance(instance, now)).collect();
        if is_asked(InterruptionKind::SpotInterrupted) {
            let call = self.client().describe_spot_instance_requests().filters(ids());
            let requests = call.into_paginator().items().send().try_collect().await;
            let requests = requests.map_err(|error| Failure::read(DESCRIBE_SPOT, &error).of_call())?;
            found.extend(requests.iter().filter_map(|request| shown::of_request(request, now)));
        }
        if is_asked(InterruptionKind::ScheduledChange) {
            let notices = self.status_notices().await?.into_iter();
            found.extend(notices.filter(|notice| asked.iter().any(|(id, _)| *id == notice.instance)));
        }
        Ok(found)
    }

    fn watch(&self) -> MutexGuard<'_, InstanceWatcher> {
        // Every method leaves the state valid, so a poisoned lock holds valid data.
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`described`], read.
    async fn all(&self, call: DescribeInstancesFluentBuilder) -> Result<Vec<Instance>, CloudError> {
        let read =
            |instance: &types::Instance| instance::read(instance).ok_or_else(|| incomplete(instance.instance_id()));
        described(call.max_results(PAGE)).await?.iter().map(read).collect()
    }

    /// Instances of `call` that are not terminated.
    async fn list_live(&self, call: DescribeInstancesFluentBuilder) -> Result<Vec<Instance>, CloudError> {
        let states = LIVE_STATES.iter().map(InstanceStateName::as_str);
        let mut found = self.all(call.filters(filter("instance-state-name", states))).await?;
        // An instance may terminate between two pages.
        found.retain(|instance| instance.state != InstanceState::Terminated);
        Ok(found)
    }
}

impl Ec2Cloud {
    async fn launch_resolved(&self, request: &LaunchRequest, resolved: &Resolved) -> Result<LaunchOutcome, CloudError> {
        let terms = &resolved.terms;
        let request::FleetRequest { call, offered } = request::fleet(request, terms)?;
        let clients = self.clients_of(&request.cluster)?;
        self.create_templates(request, resolved, &clients).await?;
        match call.send_with(&clients.ec2).await {
            Ok(answer) => {
                let context = RequestContext { request, offered: &offered, terms, now: self.now() };
                let outcome = response::outcome(&answer, context);
                if outcome.as_ref().is_err_and(is_template_missing) {
                    self.launches.forget_templates(terms);
                }
                outcome.map_err(|error| explain_denied(error, request, &clients))
            }
            Err(error) => match Failure::read(CREATE_FLEET, &error).of_launch(&request.token, offered) {
                mismatch @ CloudError::IdempotentParameterMismatch { .. } => {
                    self.find_launched(request, mismatch).await
                }
                missing if is_template_missing(&missing) => {
                    self.launches.forget_templates(terms);
                    // The order may be a repetition whose first call had its template.
                    self.find_launched(request, missing).await
                }
                other => Err(explain_denied(other, request, &clients)),
            },
        }
    }

    /// Creates the launch templates of the order that this process does not know. A template's name
    /// says its content, so one that exists already is the same.
    async fn create_templates(
        &self,
        request: &LaunchRequest,
        resolved: &Resolved,
        clients: &ClusterClients,
    ) -> Result<(), CloudError> {
        for template in &resolved.terms.templates {
            let Some(content) = resolved.contents.get(&template.name) else { continue };
            if self.launches.use_template(&template.name, self.now()) {
                continue;
            }
            let call = create_call(&template.name, content, &instance::template_tags(request));
            match call.send_with(&clients.ec2).await.map_err(|error| Failure::read(CREATE_TEMPLATE, &error)) {
                Ok(_) => {}
                Err(failure) if failure.is(ALREADY_EXISTS) => {}
                Err(failure) => return Err(explain_denied(failure.of_call(), request, clients)),
            }
            self.launches.add_template(&template.name, self.now());
        }
        Ok(())
    }

    /// The instance launched by an earlier call with the token of `request` and other parameters,
    /// found by the tags of its NodeClaim. A launch under another token without this search could
    /// create a second instance.
    async fn find_launched(&self, request: &LaunchRequest, mismatch: CloudError) -> Result<LaunchOutcome, CloudError> {
        let tag = |key: &str, value: &str| filter(format!("tag:{key}"), [value]);
        let call = self.client().describe_instances().filters(managed_filter());
        let call = call.filters(tag(CLUSTER, &request.cluster)).filters(tag(CLAIM, &request.claim));
        let owner = Owner { cluster: &request.cluster, uid: &request.cluster_uid };
        let found = self.list_live(call).await?.into_iter().find(|instance| instance.owned_by(owner).is_ok());
        found.map(|instance| LaunchOutcome { instance, unavailable: Vec::new() }).ok_or(mismatch)
    }

    /// Checks that the instance belongs to `owner`. A terminated instance loses its tags after a
    /// while.
    async fn check_owner(&self, id: &str, owner: Owner<'_>) -> Result<(), CloudError> {
        let instance = self.describe(id).await?;
        if instance.state == InstanceState::Terminated {
            return Err(CloudError::NotFound { id: instance.id });
        }
        instance.owned_by(owner)
    }
}

fn is_template_missing(error: &CloudError) -> bool {
    matches!(error, CloudError::Refused { code, .. } if &**code == TEMPLATE_NOT_FOUND)
}

/// A launch without a right, in a session of a cluster: EC2's text names the right and the resource, not the cluster.
fn explain_denied(error: CloudError, request: &LaunchRequest, clients: &ClusterClients) -> CloudError {
    match (error, &clients.holder) {
        (CloudError::Refused { operation, code, message }, Some(holder))
            if is_denied(&code) && *operation != *ASSUME_ROLE =>
        {
            CloudError::Refused {
                message: format!(
                    "the credentials of {holder} lack a right for this launch, or EC2NodeClass {} names what is not for \
                     this cluster ({message})",
                    request.node_class
                ),
                operation,
                code,
            }
        }
        (other, _) => other,
    }
}

/// The instances that `call` describes, from every page.
async fn described(call: DescribeInstancesFluentBuilder) -> Result<Vec<types::Instance>, CloudError> {
    let reservations = call.into_paginator().items().send().try_collect().await;
    let reservations = reservations.map_err(|error| Failure::read(DESCRIBE, &error).of_call())?;
    Ok(reservations.into_iter().flat_map(|reservation| reservation.instances.unwrap_or_default()).collect())
}

fn incomplete(id: Option<&str>) -> CloudError {
    let id = id.unwrap_or("without an id");
    let operation = format!("{DESCRIBE} (it returned instance {id} without its type, zone, state or launch time)");
    CloudError::Unknown { operation: Text::from(operation) }
}

pub(crate) fn filter(name: impl Into<String>, values: impl IntoIterator<Item = impl Into<String>>) -> Filter {
    let values = values.into_iter().map(Into::into).collect();
    Filter::builder().name(name).set_values(Some(values)).build()
}

pub(crate) fn managed_filter() -> Filter {
    filter(format!("tag:{MANAGED}"), ["true"])
}

/// Whether the instance was terminated before the call.
fn was_terminated(change: &InstanceStateChange) -> bool {
    change.previous_state().and_then(|state| state.name()) == Some(&InstanceStateName::Terminated)
}

#[async_trait]
impl CloudProvider for Ec2Cloud {
    fn terms(&self, request: &LaunchRequest) -> Text {
        let resolved = self.launches.resolve(request, &self.settings.region, self.now());
        // Without terms the launch fails for the reason that is known here already.
        resolved.map(|resolved| resolved.terms.to_text()).unwrap_or_default()
    }

    async fn launch(&self, request: &LaunchRequest) -> Result<LaunchOutcome, CloudError> {
        let resolved = self.launches.resolve(request, &self.settings.region, self.now())?;
        let outcome = self.launch_resolved(request, &resolved).await;
        let is_final = !matches!(outcome, Err(CloudError::Unknown { .. } | CloudError::RequestLimitExceeded { .. }));
        if is_final {
            let zone = outcome.as_ref().ok().map(|outcome| &outcome.instance.zone);
            self.launches.finish(request, zone.map(AsRef::as_ref));
        }
        outcome
    }

    async fn terminate(&self, id: &str, owner: Owner<'_>) -> Result<(), CloudError> {
        let id = instance_id(id);
        // EC2 terminates any instance of the account; only the tags identify the owner.
        self.check_owner(id, owner).await?;
        let clients = self.clients_of(owner.cluster)?;
        let sent = clients.ec2.terminate_instances().instance_ids(id).send().await;
        let answer = sent.map_err(|error| Failure::read(TERMINATE, &error).of_instance(id))?;
        let change = answer.terminating_instances().iter().find(|change| change.instance_id() == Some(id));
        match change {
            Some(change) if was_terminated(change) => Err(CloudError::NotFound { id: Text::from(id) }),
            _ => Ok(()),
        }
    }

    async fn describe(&self, id: &str) -> Result<Instance, CloudError> {
        let id = instance_id(id);
        let sent = self.client().describe_instances().instance_ids(id).send().await;
        let answer = sent.map_err(|error| Failure::read(DESCRIBE, &error).of_instance(id))?;
        let instance = answer.reservations().iter().flat_map(|reservation| reservation.instances()).next();
        let instance = instance.ok_or_else(|| CloudError::NotFound { id: Text::from(id) })?;
        instance::read(instance).ok_or_else(|| incomplete(Some(id)))
    }

    async fn list(&self, cluster: &ClusterName) -> Result<Vec<Instance>, CloudError> {
        let call = self.client().describe_instances().filters(managed_filter());
        self.list_live(call.filters(filter(format!("tag:{CLUSTER}"), [cluster.to_string()]))).await
    }

    async fn list_all(&self) -> Result<Vec<Instance>, CloudError> {
        self.list_live(self.client().describe_instances().filters(managed_filter())).await
    }

    async fn resolve_node_class(&self, query: &NodeClassQuery) -> ResolvedNodeClass {
        self.launches.serve_cluster(&query.cluster_uid, self.now());
        self.node_classes.resolve(query).await
    }

    async fn status_notices(&self) -> Result<Vec<Notice>, CloudError> {
        let mut found = Vec::new();
        for (name, values) in status::queries() {
            let call = self.client().describe_instance_status().filters(filter(name, values));
            let statuses = call.into_paginator().items().send().try_collect().await;
            found.extend(statuses.map_err(|error| Failure::read(DESCRIBE_STATUS, &error).of_call())?);
        }
        Ok(status::notices(&found, self.now()))
    }

    async fn shown_notices(&self, asked: &[(Text, InterruptionKind)]) -> Result<Option<Vec<Notice>>, CloudError> {
        self.notice_questions.ask(asked, |all| self.find_notices(all)).await.map(Some)
    }

    async fn events(&self) -> Result<Option<Vec<CloudEvent>>, CloudError> {
        if self.launches.is_collection_due(self.now())
            && let Err(error) = self.collect_launch_templates().await
        {
            warn!(region = self.settings.region, %error, "cannot delete unused launch templates; trying again in ten minutes");
        }
        if !self.watch().is_due((self.clock)()) {
            return Ok(None);
        }
        let listed = self.all(self.client().describe_instances().filters(managed_filter())).await?;
        Ok(Some(self.watch().compare(listed)))
    }
}
