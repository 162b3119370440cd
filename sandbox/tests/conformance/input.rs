//! What a row of an input table says of a field, asked of one strict route.

use serde_json::{Value, json};

use super::{Desk, ada, long};

/// The strict route at a path.
pub(super) struct Input(pub(super) &'static str);

impl Input {
    /// A text field: `longest` characters are stored as sent, one more or another type is refused.
    pub(super) async fn up_to(&self, field: &str, longest: usize) {
        let desk = Desk::new();
        for value in [
            json!(long(longest + 1)),
            json!(7),
            json!(["x"]),
            json!({"x": 1}),
        ] {
            let refused = desk.post(self.0, &ada(json!({field: value}))).await;
            assert_eq!(refused.fields(), [field], "{value}");
        }
        let taken = desk.post(self.0, &ada(json!({field: long(longest)}))).await;
        assert_eq!(taken.outcome(), (201, "completed"), "{}", taken.json);
    }

    /// The fields named by a refusal.
    pub(super) async fn refused(&self, more: Value) -> Vec<String> {
        let desk = Desk::new();
        let answer = desk.post(self.0, &ada(more)).await;
        answer.fields().into_iter().map(str::to_owned).collect()
    }

    /// The record made.
    pub(super) async fn stored(&self, more: Value) -> Value {
        let desk = Desk::new();
        let answer = desk.post(self.0, &ada(more)).await;
        assert_eq!(answer.outcome(), (201, "completed"), "{}", answer.json);
        answer.data().clone()
    }
}

/// One test a text field.
macro_rules! limits {
    ($input:ident; $($test:ident: $field:literal, $longest:literal;)*) => {
        $(#[tokio::test]
        async fn $test() {
            $input.up_to($field, $longest).await;
        })*
    };
}
pub(super) use limits;
