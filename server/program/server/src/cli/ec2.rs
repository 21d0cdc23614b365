//! `fleetwright ec2`: what a server on EC2 needs in its account.

use clap::{Args, Subcommand};

use crate::clouds::queue_setup::{self, QueueRequest};
use command::exit::{Failure, Status};
use command::output;

/// Resources in AWS that a server on EC2 uses
#[derive(Debug, Subcommand)]
pub enum Ec2Command {
    Setup(SetupFlags),
}

/// Make the queue and the rules by which a server receives interruption notices, one set for an account and region
///
/// Prints what is missing or differs, and changes it with --apply. Needs credentials that allow
/// sqs:CreateQueue, sqs:GetQueueUrl, sqs:GetQueueAttributes, sqs:SetQueueAttributes,
/// events:DescribeRule, events:ListTargetsByRule, events:PutRule and events:PutTargets; with --undo sqs:DeleteQueue,
/// events:RemoveTargets and events:DeleteRule.
#[derive(Debug, Args)]
pub struct SetupFlags {
    /// The region, such as eu-west-1
    #[arg(long)]
    region: String,
    /// Name of the queue, for the setting `interruption.queue`; names of the rules begin with it
    #[arg(long, default_value = "fleetwright", value_parser = queue_name)]
    queue: String,
    /// Make the changes
    #[arg(long)]
    apply: bool,
    /// Remove the queue and the rules that this command made: print them, and delete them with --apply
    #[arg(long)]
    undo: bool,
    /// Address of an AWS API in place of AWS's own
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
}

/// The name of a rule has at most 64 characters, of which the kind of event needs 25.
const LONGEST_NAME: usize = 39;

fn queue_name(name: &str) -> Result<String, String> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(is_allowed) {
        return Ok(name.to_owned());
    }
    Err(format!("use 1 to {LONGEST_NAME} letters, digits, hyphens and underscores"))
}

/// Runs the command.
///
/// # Errors
/// What failed, and its remedy.
pub fn run(command: Ec2Command) -> Result<Status, Failure> {
    let Ec2Command::Setup(flags) = command;
    let SetupFlags { region, queue, apply, undo, endpoint } = flags;
    let request = QueueRequest { region, queue, endpoint, undo, apply };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::internal)?;
    let mut lines = Vec::new();
    let result = runtime.block_on(queue_setup::run(&request, |line| lines.push(line)));
    // What was done before a failure is shown, too.
    if result.is_ok() || !lines.is_empty() {
        output::print_text(&text(&request, &lines))?;
    }
    result.map(|_| Status::Done).map_err(|error| Failure::refused(format!("{error:#}")))
}

/// What is printed of the changes.
fn text(request: &QueueRequest, lines: &[String]) -> String {
    let QueueRequest { region, queue, .. } = request;
    if lines.is_empty() {
        return format!("Nothing to change in {region}, queue {queue}.\n");
    }
    let heading = if request.apply {
        format!("Changed in {region}, queue {queue}:\n")
    } else {
        format!("To change in {region}, queue {queue}; --apply does it:\n")
    };
    lines.iter().fold(heading, |text, line| text + "  " + line + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(apply: bool) -> QueueRequest {
        QueueRequest { region: "eu-west-1".to_owned(), queue: "q".to_owned(), endpoint: None, undo: false, apply }
    }

    #[test]
    fn changes_are_shown_as_proposed_or_as_made() {
        assert_eq!(text(&request(true), &[]), "Nothing to change in eu-west-1, queue q.\n");
        let lines = ["create the queue".to_owned()];
        let proposed = "To change in eu-west-1, queue q; --apply does it:\n  create the queue\n";
        assert_eq!(text(&request(false), &lines), proposed);
        assert_eq!(text(&request(true), &lines), "Changed in eu-west-1, queue q:\n  create the queue\n");
    }

    #[test]
    fn names_that_a_queue_or_its_rules_cannot_have_are_refused() {
        assert!(queue_name("fleet_1-a").is_ok() && queue_name(&"q".repeat(39)).is_ok());
        for name in ["", "a.fifo", "a b", &"q".repeat(40)] {
            assert!(queue_name(name).is_err(), "{name}");
        }
    }
}
