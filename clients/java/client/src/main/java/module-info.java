/** Client for the Ticketing lock server. */
module ticketing.client {
    exports ticketing;
}
