pub(super) async fn all(_: &dyn crate::store::Store, _: &str) {}
