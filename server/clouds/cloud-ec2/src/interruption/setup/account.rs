//! Reads and changes the queue and the rules of an account and region.

use aws_sdk_eventbridge::types::{RuleState, Target};
use aws_sdk_sqs::types::QueueAttributeName;

use super::template::{self, RULE_DESCRIPTION, RuleTemplate, TARGET_ID};
use super::{Change, Existing, ExistingQueue, ExistingRule, Foreign, changes, removals};
use crate::call_error::{CallError, CallErrorClass};
use crate::clients::Clients;
use crate::interruption::queue::is_missing;

/// Code for a rule that does not exist.
const RULE_MISSING: &str = "ResourceNotFoundException";

/// In the ARN of a queue that does not exist yet, in what is shown.
const UNKNOWN_ACCOUNT: &str = "ACCOUNT";

/// Why a queue could not be set up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct SetupError(#[from] Cause);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Cause {
    #[error(transparent)]
    Foreign(Foreign),
    #[error("{0}")]
    Call(CallError),
}

impl From<Foreign> for SetupError {
    fn from(foreign: Foreign) -> Self {
        Self(Cause::Foreign(foreign))
    }
}

impl From<CallError> for SetupError {
    fn from(call: CallError) -> Self {
        Self(Cause::Call(call))
    }
}

/// The queue of this name and its rules, in an account and region.
#[derive(Debug)]
pub struct QueueSetup {
    clients: Clients,
    region: String,
    queue: String,
}

impl QueueSetup {
    pub(crate) fn new(clients: Clients, region: &str, queue: &str) -> Self {
        Self { clients, region: region.to_owned(), queue: queue.to_owned() }
    }

    /// What [`QueueSetup::apply`] would change; nothing if everything is as it should be.
    ///
    /// # Errors
    /// A right is missing, or another program made a queue or rule of that name.
    pub async fn pending(&self) -> Result<Vec<Change>, SetupError> {
        let existing = self.read().await?;
        let arn = existing.queue.as_ref().map_or_else(|| self.future_arn(), |queue| queue.arn.clone());
        Ok(changes(&self.queue, &arn, &existing)?)
    }

    /// What [`QueueSetup::undo`] would delete.
    ///
    /// # Errors
    /// As [`QueueSetup::pending`].
    pub async fn removable(&self) -> Result<Vec<Change>, SetupError> {
        Ok(removals(&self.queue, &self.read().await?))
    }

    /// Sets the queue and its rules up, and calls `done` after each change. May be repeated after a failure.
    ///
    /// # Errors
    /// As [`QueueSetup::pending`].
    pub async fn apply(&self, mut done: impl FnMut(&Change)) -> Result<(), SetupError> {
        let mut existing = self.read().await?;
        if existing.queue.is_none() {
            // Refused before anything is created.
            changes(&self.queue, &self.future_arn(), &existing)?;
            self.execute(&Change::CreateQueue, "").await?;
            done(&Change::CreateQueue);
            existing = self.read().await?;
        }
        let arn = existing.queue.as_ref().map(|queue| queue.arn.clone()).unwrap_or_default();
        for change in changes(&self.queue, &arn, &existing)? {
            self.execute(&change, &arn).await?;
            done(&change);
        }
        Ok(())
    }

    /// Deletes what was set up, and calls `done` after each change. May be repeated after a failure.
    ///
    /// # Errors
    /// As [`QueueSetup::pending`].
    pub async fn undo(&self, mut done: impl FnMut(&Change)) -> Result<(), SetupError> {
        for change in self.removable().await? {
            self.execute(&change, "").await?;
            done(&change);
        }
        Ok(())
    }

    fn future_arn(&self) -> String {
        format!("arn:aws:sqs:{}:{UNKNOWN_ACCOUNT}:{}", self.region, self.queue)
    }

    async fn read(&self) -> Result<Existing, CallError> {
        let queue = self.read_queue().await?;
        let mut rules = Vec::new();
        for rule in template::rules(&self.queue) {
            rules.push(self.read_rule(&rule.name).await?);
        }
        Ok(Existing { queue, rules })
    }

    async fn read_queue(&self) -> Result<Option<ExistingQueue>, CallError> {
        const ACTION: &str = "sqs:GetQueueAttributes";
        let Some(url) = self.url().await? else { return Ok(None) };
        let call = self.clients.sqs.get_queue_attributes().queue_url(url).attribute_names(QueueAttributeName::All);
        let answer = match call.send().await.map_err(|error| CallError::read(ACTION, &error)) {
            Err(error) if is_missing(error.code()) => return Ok(None),
            answer => answer?,
        };
        let attributes = answer.attributes.unwrap_or_default();
        let arn = attributes.get(&QueueAttributeName::QueueArn).cloned().unwrap_or_default();
        let attributes = attributes.into_iter().map(|(name, value)| (name.as_str().to_owned(), value)).collect();
        Ok(Some(ExistingQueue { arn, attributes }))
    }

    async fn url(&self) -> Result<Option<String>, CallError> {
        const ACTION: &str = "sqs:GetQueueUrl";
        let answer = self.clients.sqs.get_queue_url().queue_name(&self.queue).send().await;
        match answer.map_err(|error| CallError::read(ACTION, &error)) {
            Ok(answer) => Ok(answer.queue_url),
            Err(error) if is_missing(error.code()) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The URL of a queue that must exist.
    async fn known_url(&self) -> Result<String, CallError> {
        let missing = || {
            let message = format!("the queue {} was deleted meanwhile", self.queue);
            CallError::new("sqs:GetQueueUrl", CallErrorClass::Refused, "QueueDoesNotExist", message)
        };
        self.url().await?.ok_or_else(missing)
    }

    async fn read_rule(&self, name: &str) -> Result<Option<ExistingRule>, CallError> {
        const ACTION: &str = "events:DescribeRule";
        let answer = self.clients.events.describe_rule().name(name).send().await;
        let rule = match answer.map_err(|error| CallError::read(ACTION, &error)) {
            Err(error) if error.code() == RULE_MISSING => return Ok(None),
            answer => answer?,
        };
        // A rule has at most five targets, fewer than a page.
        let targets = self.clients.events.list_targets_by_rule().rule(name).send().await;
        let targets = targets.map_err(|error| CallError::read("events:ListTargetsByRule", &error))?;
        let target = |target: &Target| (target.id().to_owned(), target.arn().to_owned());
        Ok(Some(ExistingRule {
            description: rule.description().unwrap_or_default().to_owned(),
            pattern: rule.event_pattern().unwrap_or_default().to_owned(),
            enabled: rule.state() == Some(&RuleState::Enabled),
            targets: targets.targets().iter().map(target).collect(),
        }))
    }

    /// Executes one change. `arn` is that of the queue.
    async fn execute(&self, change: &Change, arn: &str) -> Result<(), CallError> {
        match change {
            Change::CreateQueue => self.create_queue().await,
            Change::SetAttribute { name, to, .. } => self.set_attribute(name, to).await,
            Change::PutRule { rule, .. } => self.put_rule(rule).await,
            Change::PutTarget { rule } => self.put_target(rule, arn).await,
            Change::DeleteRule { rule, targets } => self.delete_rule(rule, targets).await,
            Change::DeleteQueue => self.delete_queue().await,
        }
    }

    async fn create_queue(&self) -> Result<(), CallError> {
        let answer = self.clients.sqs.create_queue().queue_name(&self.queue).send().await;
        answer.map(drop).map_err(|error| CallError::read("sqs:CreateQueue", &error))
    }

    async fn set_attribute(&self, name: &str, to: &str) -> Result<(), CallError> {
        let call = self.clients.sqs.set_queue_attributes().queue_url(self.known_url().await?);
        let answer = call.attributes(QueueAttributeName::from(name), to).send().await;
        answer.map(drop).map_err(|error| CallError::read("sqs:SetQueueAttributes", &error))
    }

    async fn put_rule(&self, rule: &RuleTemplate) -> Result<(), CallError> {
        let call = self.clients.events.put_rule().name(&rule.name).event_pattern(&rule.pattern);
        let answer = call.state(RuleState::Enabled).description(RULE_DESCRIPTION).send().await;
        answer.map(drop).map_err(|error| CallError::read("events:PutRule", &error))
    }

    async fn put_target(&self, rule: &str, arn: &str) -> Result<(), CallError> {
        const ACTION: &str = "events:PutTargets";
        let target = Target::builder().id(TARGET_ID).arn(arn).build();
        let target = target.map_err(|error| CallError::invalid_request(ACTION, &error))?;
        let answer = self.clients.events.put_targets().rule(rule).targets(target).send().await;
        let answer = answer.map_err(|error| CallError::read(ACTION, &error))?;
        match answer.failed_entries().first() {
            None => Ok(()),
            Some(failed) => {
                let (code, why) = (failed.error_code().unwrap_or("unknown"), failed.error_message());
                Err(CallError::new(ACTION, CallErrorClass::Refused, code, why.unwrap_or("no message")))
            }
        }
    }

    async fn delete_rule(&self, rule: &str, targets: &[String]) -> Result<(), CallError> {
        // A rule with targets cannot be deleted.
        if !targets.is_empty() {
            let call = self.clients.events.remove_targets().rule(rule).set_ids(Some(targets.to_vec()));
            call.send().await.map_err(|error| CallError::read("events:RemoveTargets", &error))?;
        }
        let answer = self.clients.events.delete_rule().name(rule).send().await;
        answer.map(drop).map_err(|error| CallError::read("events:DeleteRule", &error))
    }

    async fn delete_queue(&self) -> Result<(), CallError> {
        let answer = self.clients.sqs.delete_queue().queue_url(self.known_url().await?).send().await;
        answer.map(drop).map_err(|error| CallError::read("sqs:DeleteQueue", &error))
    }
}
