//! Budgets: what a call may cost is set aside before it is made and settled after, so that calls
//! made at the same time cannot spend the same money twice.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use baton_core::{Price, Tokens, Usage, Usd};
use tokio::sync::Notify;

/// A call whose answer may not be longer than this is not worth making.
const OUTPUT_MIN: Tokens = 256;

/// A cap on tokens and money, shared by everybody who holds it.
#[derive(Debug, Clone)]
pub struct Budget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    level: &'static str,
    caps: Caps,
    account: Mutex<Account>,
    settled: Notify,
}

/// What may be used; `None` is without limit.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Caps {
    /// Tokens, sent and received.
    pub tokens: Option<Tokens>,
    /// Money.
    pub usd: Option<Usd>,
}

#[derive(Debug, Default)]
struct Account {
    spent: Amount,
    reserved: Amount,
    reservations: usize,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Amount {
    tokens: Tokens,
    usd: Usd,
}

/// What a call is expected to need.
#[derive(Debug, Clone, Copy)]
pub struct Need {
    /// Estimated prompt tokens.
    pub input: Tokens,
    /// The most the model may write.
    pub output_max: Tokens,
    /// What the model charges, where known.
    pub price: Option<Price>,
}

/// A budget has not enough left.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub struct Exceeded {
    level: &'static str,
    caps: Caps,
    spent_tokens: Tokens,
    spent_usd: Usd,
    /// What the next call costs at least.
    next_usd: Usd,
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} budget is used up: ", self.level)?;
        match (self.caps.usd, self.caps.tokens) {
            (Some(usd), _) if usd <= self.spent_usd => write!(f, "{} of {usd} spent", self.spent_usd),
            (Some(usd), _) if usd <= self.spent_usd + self.next_usd => {
                write!(f, "{} of {usd} spent, and the next call costs {} or more", self.spent_usd, self.next_usd)
            }
            (_, Some(tokens)) => write!(f, "{} of {tokens} tokens used", self.spent_tokens),
            (Some(usd), None) => write!(f, "{} of {usd} spent", self.spent_usd),
            (None, None) => f.write_str("nothing is left"),
        }
    }
}

impl Budget {
    /// A budget; `level` names it in messages ("session", "process").
    pub fn new(level: &'static str, caps: Caps) -> Self {
        Self(Arc::new(Shared { level, caps, account: Mutex::default(), settled: Notify::new() }))
    }

    /// Sets aside what a call may need. Waits while other calls hold what would be enough; fails
    /// when that is spent. The reservation may allow less output than was asked for.
    pub async fn reserve(&self, need: Need) -> Result<Reservation, Exceeded> {
        loop {
            let settled = self.0.settled.notified();
            tokio::pin!(settled);
            settled.as_mut().enable();
            if let Some(reservation) = self.try_reserve(need)? {
                return Ok(reservation);
            }
            settled.await;
        }
    }

    /// `Ok(None)`: not now, but when a running call settles.
    fn try_reserve(&self, need: Need) -> Result<Option<Reservation>, Exceeded> {
        let mut account = self.account();
        let Some(output_max) = self.0.caps.allowance(&account, need) else {
            if account.reservations > 0 {
                return Ok(None);
            }
            let (spent_tokens, spent_usd) = (account.spent.tokens, account.spent.usd);
            let next_usd = Amount::of(&need, OUTPUT_MIN.min(need.output_max)).usd;
            return Err(Exceeded { level: self.0.level, caps: self.0.caps, spent_tokens, spent_usd, next_usd });
        };
        let amount = Amount::of(&need, output_max);
        account.reserved = account.reserved + amount;
        account.reservations += 1;
        Ok(Some(Reservation { budget: self.clone(), need, amount, output_max }))
    }

    /// What was spent so far.
    pub fn spent(&self) -> (Tokens, Usd) {
        let account = self.account();
        (account.spent.tokens, account.spent.usd)
    }

    fn account(&self) -> std::sync::MutexGuard<'_, Account> {
        self.0.account.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Caps {
    /// How much output fits beside what is spent and reserved; `None` if too little.
    fn allowance(&self, account: &Account, need: Need) -> Option<Tokens> {
        let mut output = need.output_max;
        if let Some(cap) = self.tokens {
            let free = cap.checked_sub(account.spent.tokens.saturating_add(account.reserved.tokens))?;
            output = output.min(free.checked_sub(need.input)?);
        }
        if let (Some(cap), Some(price)) = (self.usd, need.price) {
            let used = account.spent.usd + account.reserved.usd + Amount::of(&need, 0).usd;
            if used >= cap {
                return None;
            }
            output = output.min((cap - used).buys(price.output).unwrap_or(Tokens::MAX));
        }
        (output >= OUTPUT_MIN.min(need.output_max)).then_some(output)
    }
}

impl Amount {
    fn of(need: &Need, output: Tokens) -> Self {
        let read = Usage { input_tokens: need.input, ..Usage::default() };
        let cached = Usage { cache_write_tokens: need.input, ..Usage::default() };
        let written = Usage { output_tokens: output, ..Usage::default() };
        // Which part of the prompt goes into the provider's cache is not known before: the dearer price counts.
        let usd = need.price.map_or(Usd::ZERO, |price| price.of(&read).max(price.of(&cached)) + price.of(&written));
        Self { tokens: need.input + output, usd }
    }
}

impl std::ops::Add for Amount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { tokens: self.tokens.saturating_add(other.tokens), usd: self.usd + other.usd }
    }
}

/// Money set aside for one call. Dropped without being settled, it is given back.
#[derive(Debug)]
#[must_use]
pub struct Reservation {
    budget: Budget,
    need: Need,
    amount: Amount,
    output_max: Tokens,
}

impl Reservation {
    /// The most the model may write so that the call stays within what was set aside.
    pub fn output_max(&self) -> Tokens {
        self.output_max
    }

    /// Gives back what a smaller answer does not need.
    pub fn shrink(&mut self, output_max: Tokens) {
        if output_max < self.output_max {
            let less = Amount::of(&self.need, output_max);
            let mut account = self.budget.account();
            account.reserved.tokens -= self.amount.tokens - less.tokens;
            account.reserved.usd = account.reserved.usd - (self.amount.usd - less.usd);
            (self.amount, self.output_max) = (less, output_max);
        }
    }

    /// Replaces the estimate by what the call really used.
    pub fn settle(self, usage: &Usage) {
        let usd = self.need.price.map_or(Usd::ZERO, |price| price.of(usage));
        let spent = Amount { tokens: usage.total_tokens(), usd };
        let mut account = self.budget.account();
        account.spent = account.spent + spent;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut account = self.budget.account();
        account.reserved.tokens -= self.amount.tokens;
        account.reserved.usd = account.reserved.usd - self.amount.usd;
        account.reservations -= 1;
        drop(account);
        self.budget.0.settled.notify_waiters();
    }
}

/// A rough count of tokens in a text: three bytes each, which is more than code and English have.
pub fn estimate_tokens(bytes: usize) -> Tokens {
    (bytes as Tokens).div_ceil(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dollars(amount: f64) -> Usd {
        Usd::from_dollars(amount).unwrap()
    }

    fn price() -> Price {
        Price { input: dollars(3.0), output: dollars(15.0), cache_read: None, cache_write: None }
    }

    #[tokio::test]
    async fn twenty_calls_at_once_do_not_overshoot() {
        let budget = Budget::new("session", Caps { tokens: Some(10_000), usd: None });
        let calls: Vec<_> = (0..20)
            .map(|_| {
                let budget = budget.clone();
                tokio::spawn(async move {
                    let held = budget.reserve(Need { input: 600, output_max: 400, price: None }).await?;
                    tokio::task::yield_now().await;
                    held.settle(&Usage { input_tokens: 600, output_tokens: 400, ..Usage::default() });
                    Ok::<_, Exceeded>(())
                })
            })
            .collect();
        let mut made = 0;
        let mut refused = Vec::new();
        for call in calls {
            match call.await.unwrap() {
                Ok(()) => made += 1,
                Err(exceeded) => refused.push(exceeded.to_string()),
            }
        }
        assert_eq!((made, refused.len(), budget.spent().0), (10, 10, 10_000));
        assert_eq!(refused[0], "the session budget is used up: 10000 of 10000 tokens used");
    }

    #[tokio::test]
    async fn little_money_buys_a_short_answer() {
        let budget = Budget::new("session", Caps { tokens: None, usd: Some(dollars(0.03)) });
        let held = budget.reserve(Need { input: 5_000, output_max: 64_000, price: Some(price()) }).await.unwrap();
        assert_eq!(held.output_max(), 1_000);
        held.settle(&Usage { input_tokens: 5_000, output_tokens: 900, ..Usage::default() });
        let refused = budget.reserve(Need { input: 5_000, output_max: 64_000, price: Some(price()) }).await;
        let said = "the session budget is used up: $0.03 of $0.03 spent, and the next call costs $0.02 or more";
        assert_eq!(refused.unwrap_err().to_string(), said);
    }

    #[tokio::test]
    async fn what_is_not_used_is_given_back() {
        let budget = Budget::new("process", Caps { tokens: Some(1_000), usd: None });
        let need = Need { input: 100, output_max: 900, price: None };
        let mut held = budget.reserve(need).await.unwrap();
        held.shrink(300);
        assert!(budget.try_reserve(Need { input: 100, output_max: 500, price: None }).unwrap().is_some());
        drop(held);
        assert!(budget.try_reserve(need).unwrap().is_some());
        assert_eq!(budget.spent(), (0, Usd::ZERO));
    }
}
