//! How a refusal is said: which object, what is wrong, and a way out.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::exit::Exit;

/// A refusal or failure as it is shown, also across the control socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Failure {
    /// The drive, pool, volume, file or option concerned.
    pub object: String,
    pub what: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The command itself makes no sense, whatever the state of the system (exit code 2).
    #[serde(default)]
    pub usage: bool,
}

impl Failure {
    pub fn new(object: impl fmt::Display, what: impl fmt::Display) -> Failure {
        Failure { object: object.to_string(), what: what.to_string(), hint: None, usage: false }
    }

    /// A mistake in the command or configuration.
    pub fn usage(object: impl fmt::Display, what: impl fmt::Display) -> Failure {
        Failure { usage: true, ..Failure::new(object, what) }
    }

    pub fn hint(self, hint: impl fmt::Display) -> Failure {
        Failure { hint: Some(hint.to_string()), ..self }
    }

    /// The same as something that one can do without.
    pub fn as_warning(&self) -> String {
        let text = self.to_string();
        format!("warning{}", text.strip_prefix("error").unwrap_or(&text))
    }

    pub fn exit(&self) -> Exit {
        if self.usage { Exit::Usage } else { Exit::Failed }
    }
}

/// Two lines at most: `error: <object>: <what>` and `hint: <way out>`.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}: {}", self.object, self.what)?;
        if let Some(hint) = &self.hint {
            write!(f, "\nhint: {hint}")?;
        }
        Ok(())
    }
}

/// What most functions of this crate return.
pub type Outcome<T> = Result<T, Failure>;
