//! Shipped data: JSON with comments on lines of their own, embedded in the binary.

use serde::de::DeserializeOwned;

/// Reads embedded data. A test reads every file, so what comes out is never the default.
pub(crate) fn read<T: DeserializeOwned + Default>(text: &str) -> T {
    parse(text).unwrap_or_default()
}

/// Reads embedded data or says what is wrong with it.
pub(crate) fn parse<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    let json: String = text.split_inclusive('\n').filter(|line| !line.trim_start().starts_with("//")).collect();
    serde_json::from_str(&json)
}
