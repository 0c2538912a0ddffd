//! A question to the person at the terminal, where a command needs a yes.

use std::io::{self, IsTerminal, Write};

use baton_core::{Area, Fault, Tier};

/// The person's yes: from the flag, or from the terminal; where nobody is there it is missing.
pub fn yes(question: &str, is_given: bool, how_to_give: &str) -> Result<bool, Fault> {
    if is_given {
        return Ok(true);
    }
    if !io::stdin().is_terminal() {
        let fault = Fault::new(
            Area::Person,
            Tier::UserFixable,
            "nothing was changed: this needs a yes, and nobody is here to give it",
        );
        return Err(fault.hint(how_to_give));
    }
    drop(write!(anstream::stderr(), "{question} [y/N] "));
    let mut answer = String::new();
    let read = io::stdin().read_line(&mut answer);
    read.map_err(|error| Fault::input(format!("cannot read the answer: {error}")))?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
