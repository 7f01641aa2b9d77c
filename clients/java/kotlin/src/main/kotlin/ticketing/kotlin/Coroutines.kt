/** Coroutine extensions of the Ticketing client. */
package ticketing.kotlin

import java.util.concurrent.CompletableFuture
import kotlin.coroutines.resumeWithException
import kotlin.time.Duration
import kotlin.time.toJavaDuration
import kotlinx.coroutines.CancellationException
import kotlinx.coroutines.NonCancellable
import kotlinx.coroutines.future.await
import kotlinx.coroutines.suspendCancellableCoroutine
import kotlinx.coroutines.withContext
import ticketing.AcquireOptions
import ticketing.Broker
import ticketing.ReleaseOutcome
import ticketing.Ticket
import ticketing.TicketingException

/**
 * Wait, lease and work budget of an acquire.
 *
 * @param wait longest time to queue, 0–255 s; fractions are rounded up; zero is one immediate try
 * @param lease whole seconds, 1–250
 * @param budget least time that must be left of the lease when the grant arrives, below the lease
 * @throws TicketingException.InvalidInput for values out of range
 */
public fun acquireOptions(wait: Duration, lease: Duration, budget: Duration = Duration.ZERO): AcquireOptions =
    AcquireOptions.of(wait.toJavaDuration(), lease.toJavaDuration()).withBudget(budget.toJavaDuration())

/**
 * Acquires one key, suspending. Cancelling the coroutine gives up, and a late grant is released in the background.
 *
 * @throws TicketingException every one but ReleaseUnconfirmed; each tells what is known about the lock
 */
public suspend fun Broker.acquireSuspending(key: String, options: AcquireOptions): Ticket =
    acquireAsync(key, options).awaitTicket()

/**
 * Acquires up to 16 keys, all or nothing, suspending. Order and duplicates do not matter.
 *
 * @throws TicketingException as [acquireSuspending]
 */
public suspend fun Broker.acquireSetSuspending(keys: Collection<String>, options: AcquireOptions): Ticket =
    acquireSetAsync(keys, options).awaitTicket()

/**
 * Releases the lock, suspending at most 5 s. Cancelling the coroutine does not stop the release.
 *
 * @throws TicketingException.ReleaseUnconfirmed when no definite answer came: the lease ends the lock
 */
public suspend fun Ticket.releaseSuspending(): ReleaseOutcome = releaseAsync().await()

/**
 * Runs [work] while holding the key, and releases it afterwards, whatever happens. A release that stays unconfirmed
 * is not an error of the work: the lease ends the lock.
 *
 * @throws TicketingException as [acquireSuspending]
 */
public suspend fun <T> Broker.withLock(key: String, options: AcquireOptions, work: suspend (Ticket) -> T): T =
    held(acquireSuspending(key, options), work)

/**
 * Runs [work] while holding up to 16 keys; otherwise as the form for one key.
 *
 * @throws TicketingException as [acquireSuspending]
 */
public suspend fun <T> Broker.withLock(
    keys: Collection<String>,
    options: AcquireOptions,
    work: suspend (Ticket) -> T,
): T = held(acquireSetSuspending(keys, options), work)

/**
 * As `await`, which would lose a ticket when the coroutine is cancelled after the grant has come and before it goes on:
 * here that ticket is released.
 */
private suspend fun CompletableFuture<Ticket>.awaitTicket(): Ticket = suspendCancellableCoroutine { continuation ->
    whenComplete { ticket, failure ->
        if (failure == null) {
            continuation.resume(ticket) { _, unwanted, _ -> unwanted.abandon() }
        } else {
            continuation.resumeWithException(failure)
        }
    }
    continuation.invokeOnCancellation { cancel(false) }
}

private suspend fun <T> held(ticket: Ticket, work: suspend (Ticket) -> T): T =
    try {
        work(ticket)
    } finally {
        withContext(NonCancellable) { releaseQuietly(ticket) }
    }

private suspend fun releaseQuietly(ticket: Ticket) {
    try {
        ticket.releaseSuspending()
    } catch (cancelled: CancellationException) {
        throw cancelled
    } catch (_: TicketingException) {
        // The lease is the safety net.
    }
}
