//! What must hold in every aspect: properties of states, and an auditor that looks at every applied entry.

use stateright::{Model, Property};

use crate::core::{Core, End, Event, LEASES, LeaseId, RESOURCES, ResourceId};

/// Something that no applied entry may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Flaw {
    /// Lease time went back.
    TimeFell,
    /// A token was not above the one before it.
    TokenFell,
    /// The deadline of a living lease came nearer.
    DeadlineFell,
    /// A lease expired before its deadline.
    Early,
    /// A lease whose time was over got something.
    DeadServed,
    /// Somebody got something before another who came earlier.
    Overtaken,
    /// A lease whose time was over has time again.
    Revived,
    /// A lease id was granted a second time.
    GrantedTwice,
    /// A lease ended in another revision than its parent.
    EndedApart,
}

/// What the auditor remembers of all entries so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Audit {
    granted: u8,
    /// The first flaw it saw.
    pub flaw: Option<Flaw>,
}

impl Audit {
    /// Looks at an applied entry.
    pub fn see(&mut self, before: &Core, after: &Core, events: &[Event]) {
        let mut flaw = (after.now < before.now).then_some(Flaw::TimeFell);
        for lease in 0..LEASES {
            let (old, new) = (&before.leases[lease], &after.leases[lease]);
            if old.is_living() && new.is_living() && new.deadline < old.deadline {
                flaw = flaw.or(Some(Flaw::DeadlineFell));
            }
            let over = old.is_living() && before.deadline(lease) < after.now;
            if over && new.is_living() && !after.is_due(lease) {
                flaw = flaw.or(Some(Flaw::Revived));
            }
        }
        let mut root = None;
        for event in events {
            flaw = flaw.or(self.see_event(after, event, &mut root));
        }
        self.flaw = self.flaw.or(flaw);
    }

    fn see_event(&mut self, after: &Core, event: &Event, root: &mut Option<u8>) -> Option<Flaw> {
        match *event {
            Event::Granted { lease } => {
                let bit = 1 << lease;
                let again = self.granted & bit != 0;
                self.granted |= bit;
                again.then_some(Flaw::GrantedTwice)
            }
            Event::Taken { token, last, .. } if token <= last => Some(Flaw::TokenFell),
            Event::Taken { due: true, .. } => Some(Flaw::DeadServed),
            Event::Taken { overtook: true, .. } => Some(Flaw::Overtaken),
            Event::Ended { end: End::WithParent, revision, .. } if *root != Some(revision) => Some(Flaw::EndedApart),
            Event::Ended { end: End::Expired, deadline, .. } if deadline >= after.now => Some(Flaw::Early),
            Event::Ended { revision, .. } => {
                *root = Some(revision);
                None
            }
            Event::Taken { .. } | Event::GivenBack { .. } => None,
        }
    }
}

/// A model of some of the rules.
pub trait Aspect: Model {
    /// The state that all committed entries give.
    fn core<'a>(&self, state: &'a Self::State) -> &'a Core;

    /// What the auditor saw.
    fn audit(&self, state: &Self::State) -> Audit;

    /// Tells whether the holder of a lease believes, at this moment, that it holds a resource.
    fn acts(&self, state: &Self::State, lease: LeaseId, resource: ResourceId) -> bool;

    /// Tells a path step by step, in words.
    fn story(&self, path: &[(Self::State, Option<Self::Action>)]) -> Vec<String>;
}

/// The properties that every aspect has.
pub fn promises<M: Aspect>() -> Vec<Property<M>> {
    vec![
        Property::<M>::always("at most one valid holder", |model, state| {
            (0..RESOURCES).all(|at| (0..LEASES).filter(|lease| model.acts(state, *lease, at)).count() <= 1)
        }),
        Property::<M>::always("what a valid holder holds is its own, or rests", |model, state| {
            let core = model.core(state);
            let kept = |lease, at| core.token(lease, at).is_some() || core.is_resting(at);
            (0..RESOURCES).all(|at| (0..LEASES).all(|lease| !model.acts(state, lease, at) || kept(lease, at)))
        }),
        Property::<M>::always("tokens rise", |model, state| model.audit(state).flaw != Some(Flaw::TokenFell)),
        Property::<M>::always("lease time never goes back", |model, state| {
            model.audit(state).flaw != Some(Flaw::TimeFell)
        }),
        Property::<M>::always("a deadline never comes nearer", |model, state| {
            model.audit(state).flaw != Some(Flaw::DeadlineFell)
        }),
        Property::<M>::always("nothing expires early", |model, state| model.audit(state).flaw != Some(Flaw::Early)),
        Property::<M>::always("a lease is granted once and ends once", |model, state| {
            model.audit(state).flaw != Some(Flaw::GrantedTwice)
        }),
        Property::<M>::always("the dead get nothing and do not come back", |model, state| {
            !matches!(model.audit(state).flaw, Some(Flaw::DeadServed | Flaw::Revived))
        }),
        Property::<M>::always("nobody is overtaken", |model, state| model.audit(state).flaw != Some(Flaw::Overtaken)),
        Property::<M>::always("a lease ends with its children in one revision", |model, state| {
            let core = model.core(state);
            let orphan =
                |lease: usize| core.leases[lease].parent.is_some_and(|parent| !core.leases[parent].is_living());
            model.audit(state).flaw != Some(Flaw::EndedApart) && !(0..LEASES).any(orphan)
        }),
        Property::<M>::always("nobody waits for what is free", |model, state| {
            let core = model.core(state);
            (0..RESOURCES).all(|resource| !core.is_free(resource) || core.first_living(resource).is_none())
        }),
    ]
}
