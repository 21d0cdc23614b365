use super::*;

const ARN: &str = "arn:aws:sqs:eu-west-1:123456789012:fleet";

/// What a complete setup has, with JSON and booleans as another writer would write them.
fn complete() -> Existing {
    let attributes = template::attributes(ARN).map(|(name, value)| {
        let value = if name == "Policy" { format!("{:#}", json(&value)) } else { value };
        (name.to_owned(), if value == "true" { "True".to_owned() } else { value })
    });
    let rule = |rule: RuleTemplate| ExistingRule {
        description: RULE_DESCRIPTION.to_owned(),
        pattern: format!("{:#}", json(&rule.pattern)),
        enabled: true,
        targets: vec![("fleetwright".to_owned(), ARN.to_owned())],
    };
    Existing {
        queue: Some(ExistingQueue { arn: ARN.to_owned(), attributes: attributes.to_vec() }),
        rules: template::rules("fleet").into_iter().map(|one| Some(rule(one))).collect(),
    }
}

fn shown(existing: &Existing) -> Vec<String> {
    changes("fleet", ARN, existing).unwrap().iter().map(ToString::to_string).collect()
}

#[test]
fn an_empty_account_gets_a_queue_and_five_rules_that_send_to_it() {
    let shown = shown(&Existing { queue: None, rules: vec![None; 5] });
    assert_eq!(
        shown[..3],
        [
            "create the queue",
            "set MessageRetentionPeriod of the queue to 300",
            "set SqsManagedSseEnabled of the queue to true",
        ]
    );
    let policy = json(shown[3].strip_prefix("set Policy of the queue to ").unwrap());
    let (send, tls) = (&policy["Statement"][0], &policy["Statement"][1]);
    assert_eq!((&send["Effect"], &send["Action"]), (&Value::from("Allow"), &Value::from("sqs:SendMessage")));
    assert_eq!((&send["Principal"]["Service"], &send["Resource"]), (&"events.amazonaws.com".into(), &ARN.into()));
    assert_eq!((&tls["Effect"], &tls["Condition"]["Bool"]["aws:SecureTransport"]), (&"Deny".into(), &"false".into()));
    let spot = r#"{"source":["aws.ec2"],"detail-type":["EC2 Spot Instance Interruption Warning"]}"#;
    assert_eq!(shown[4], format!("create the rule fleet-spot-interruption: {spot}"));
    assert_eq!(shown[5], "send the events of the rule fleet-spot-interruption to the queue");
    let rules: Vec<&str> = shown[4..].iter().step_by(2).filter_map(|line| line.split([' ', ':']).nth(3)).collect();
    let names = ["fleet-spot-interruption", "fleet-rebalance", "fleet-state-change", "fleet-reservation-interruption"];
    assert_eq!(rules[..4], names);
    assert_eq!((rules[4], shown.len()), ("fleet-health", 14));
}

#[test]
fn a_complete_setup_needs_no_change() {
    assert_eq!(shown(&complete()), Vec::<String>::new());
}

#[test]
fn only_what_differs_is_changed() {
    let mut existing = complete();
    existing.queue.as_mut().unwrap().attributes[0].1 = "345600".to_owned();
    existing.rules[1].as_mut().unwrap().enabled = false;
    existing.rules[2].as_mut().unwrap().targets[0].1 = "arn:aws:sqs:eu-west-1:123456789012:other".to_owned();
    existing.rules[4] = None;
    let names: Vec<String> =
        shown(&existing).iter().map(|line| line.split(" with ").next().unwrap().to_owned()).collect();
    let health = r#"{"source":["aws.health"],"detail-type":["AWS Health Event"]}"#;
    assert_eq!(
        names,
        [
            "change MessageRetentionPeriod of the queue from 345600 to 300".to_owned(),
            "enable the rule fleet-rebalance".to_owned(),
            "send the events of the rule fleet-state-change to the queue".to_owned(),
            format!("create the rule fleet-health: {health}"),
            "send the events of the rule fleet-health to the queue".to_owned(),
        ]
    );
}

#[test]
fn a_queue_whose_creation_was_cut_short_is_completed() {
    let mut existing = Existing { rules: vec![None; 5], ..complete() };
    existing.queue.as_mut().unwrap().attributes = vec![("MessageRetentionPeriod".to_owned(), "300".to_owned())];
    assert_eq!(shown(&existing).len(), 12, "two attributes, five rules and five targets");
}

#[test]
fn what_another_program_made_is_neither_changed_nor_deleted() {
    let mut queue = complete();
    queue.queue.as_mut().unwrap().attributes[2].1 = r#"{"Id":"EC2InterruptionPolicy"}"#.to_owned();
    let refused = changes("fleet", ARN, &queue).unwrap_err().to_string();
    assert!(refused.starts_with("the queue fleet exists and was not made by"), "{refused}");
    assert!(!removals("fleet", &queue).contains(&Change::DeleteQueue));
    let mut rule = complete();
    rule.rules[4].as_mut().unwrap().description = "ours".to_owned();
    let refused = changes("fleet", ARN, &rule).unwrap_err().to_string();
    assert!(refused.starts_with("the rule fleet-health exists"), "{refused}");
    assert_eq!(removals("fleet", &rule).len(), 5, "four rules and the queue");
}

#[test]
fn rules_are_deleted_before_the_queue() {
    let undone = removals("fleet", &complete());
    let lines: Vec<String> = undone.iter().map(ToString::to_string).collect();
    assert_eq!(lines.len(), 6);
    assert_eq!(
        (lines[0].as_str(), lines[5].as_str()),
        ("delete the rule fleet-spot-interruption", "delete the queue and its messages",)
    );
    let targets = vec!["fleetwright".to_owned()];
    assert_eq!(undone[0], Change::DeleteRule { rule: "fleet-spot-interruption".to_owned(), targets });
}
