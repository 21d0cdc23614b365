use super::*;

fn failure(error_class: ErrorClass) -> Failure {
    Failure { error_class, operation: "Call", code: "Code".to_owned(), message: "words".to_owned() }
}

#[test]
fn only_a_launch_reports_capacity_and_token_errors() {
    let token = Text::from("t");
    let launch = |error_class| failure(error_class).of_launch(&token, Vec::new());
    assert_eq!(launch(ErrorClass::InsufficientCapacity), CloudError::InsufficientCapacity { unavailable: Vec::new() });
    assert_eq!(launch(ErrorClass::Mismatch), CloudError::IdempotentParameterMismatch { token: token.clone() });
    assert!(matches!(failure(ErrorClass::InsufficientCapacity).of_instance("i-1"), CloudError::Refused { .. }));
}

#[test]
fn a_missing_instance_is_named() {
    assert_eq!(failure(ErrorClass::NotFound).of_instance("i-1"), CloudError::NotFound { id: Text::from("i-1") });
}

#[test]
fn an_unknown_outcome_is_never_reported_as_refused() {
    assert_eq!(
        failure(ErrorClass::Unclear).of_call().to_string(),
        "no answer from the cloud to Call (Code: words); the same request must be sent again to learn what came of it"
    );
    assert_eq!(failure(ErrorClass::Throttled).of_call(), CloudError::RequestLimitExceeded { retry_after_ms: 1_000 });
}

#[test]
fn quotas_addresses_reservations_and_roles_concern_the_account_and_capacity_the_zone() {
    for code in error_class::CAPACITY {
        let is_of_zone = ["InsufficientInstanceCapacity", "UnfulfillableCapacity", "Unsupported"].contains(code);
        assert_eq!(refusal_cause(code) == RefusalCause::Capacity, is_of_zone, "{code}");
    }
    assert_eq!(refusal_cause("AuthFailure.ServiceLinkedRoleCreationNotPermitted"), RefusalCause::Account);
}

#[test]
fn a_refusal_says_what_to_do_after_the_words_of_ec2() {
    let error = refused("CreateFleet", "UnauthorizedOperation", "You are not authorized to perform this operation.");
    assert_eq!(
        error.to_string(),
        "the cloud refuses CreateFleet: UnauthorizedOperation: You are not authorized to perform this operation: allow \
         the action in the policy of the server's role (deploy/aws), and check permission boundaries and service control \
         policies"
    );
    let unknown = refused("CreateFleet", "InvalidNewCode", "Something new.");
    assert_eq!(unknown.to_string(), "the cloud refuses CreateFleet: InvalidNewCode: Something new.");
}
