//! The list of behaviours. Verdicts rest on order and on what must not be early; bounds on being quick are generous.

mod capabilities;
mod crash;
mod ending;
mod guards;
mod holding;
mod inputs;
mod repeating;
mod several;
mod waiting;

use futures_util::future::BoxFuture;
use leasehold_client::store::Capability;

use crate::harness::Case;

/// One behaviour.
pub(crate) struct Behaviour {
    pub(crate) name: &'static str,
    /// Where it is promised: everywhere if none is named.
    pub(crate) needs: Option<Capability>,
    pub(crate) run: fn(Case) -> BoxFuture<'static, ()>,
}

macro_rules! behaviours {
    ($($module:ident :: $name:ident $(if $needs:ident)?,)*) => {
        /// Every behaviour.
        pub(crate) const ALL: &[Behaviour] = &[$(Behaviour {
            name: stringify!($name),
            needs: behaviours!(@needs $($needs)?),
            run: |case| Box::pin($module::$name(case)),
        },)*];
    };
    (@needs) => { None };
    (@needs $needs:ident) => { Some(Capability::$needs) };
}

behaviours! {
    holding::one_holder_at_a_time,
    holding::one_of_many_at_once_gets_it,
    holding::a_refusal_tells_who_and_why,
    holding::tokens_rise_with_every_grant if Fencing,
    holding::renewals_keep_it,
    holding::only_its_holder_renews_or_releases_it,
    holding::each_renewal_has_its_own_answer,
    holding::the_incumbent_is_shown,
    holding::names_are_kept_apart,
    ending::time_frees_it_and_not_before,
    ending::a_release_frees_it_at_once,
    ending::a_release_may_be_repeated,
    ending::a_fraction_of_a_second_is_kept if SubSecondTtl,
    ending::a_lease_without_end_stays if EndlessTtl,
    repeating::a_repeated_grant_finds_the_lease,
    repeating::a_repeated_grant_does_not_begin_anew,
    repeating::nothing_is_left_of_an_abandoned_lease,
    repeating::a_grant_after_its_end_does_nothing,
    repeating::a_wait_given_up_leaves_the_queue,
    repeating::given_up_at_any_moment_nothing_is_left,
    waiting::a_wait_ends_when_its_patience_does,
    waiting::a_waiter_gets_it_after_a_release,
    waiting::a_waiter_gets_it_after_an_expiry,
    waiting::a_waiter_outlives_its_ttl,
    waiting::a_waiter_is_told_who_holds,
    waiting::waiters_are_served_in_order if FairQueue,
    waiting::a_change_of_holder_is_noticed,
    several::all_or_none if SeveralResources,
    several::each_has_its_token if SeveralResources,
    several::a_waiter_gets_all_of_them if SeveralResources,
    several::crossing_wishes_do_not_block_each_other if SeveralResources,
    several::shared_holders_keep_others_out if SharedMode,
    guards::a_guard_renews_itself_and_releases,
    guards::a_dropped_guard_or_wait_leaves_nothing,
    guards::a_guard_whose_lease_was_taken_is_lost,
    capabilities::what_is_not_promised_is_refused,
    capabilities::an_absent_store_is_named,
    inputs::what_makes_no_sense_is_refused,
}

/// What is tried last and alone, because it stops the store for a while; false if that cannot happen to it.
pub(crate) async fn after_a_crash(case: Case) -> bool {
    crash::clients_find_it_again(case).await
}
