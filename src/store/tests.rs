mod plans;
mod rebuilt;
mod states;
