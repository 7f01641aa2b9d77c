package ticketing

import java.util.concurrent.ConcurrentLinkedQueue
import java.util.concurrent.Executor
import java.util.concurrent.LinkedBlockingQueue
import java.util.function.Consumer
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.seconds
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.CoroutineStart
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.asCoroutineDispatcher
import kotlinx.coroutines.async
import kotlinx.coroutines.awaitAll
import kotlinx.coroutines.cancelAndJoin
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.Timeout
import ticketing.kotlin.acquireOptions
import ticketing.kotlin.acquireSetSuspending
import ticketing.kotlin.acquireSuspending
import ticketing.kotlin.releaseSuspending
import ticketing.kotlin.withLock

/** The coroutine extensions against the scripted server. */
@Timeout(60)
class CoroutinesTest {
    private val options = acquireOptions(wait = 5.seconds, lease = 30.seconds)

    private fun withBroker(script: Consumer<ScriptedServer.Received>, test: suspend (Broker, ScriptedServer) -> Unit) {
        ScriptedServer.single(script).use { server ->
            Broker.connect(BrokerOptions.single(server.address())).use { broker -> runBlocking { test(broker, server) } }
        }
    }

    /** How many grants were released; a busy machine may have one sent twice. */
    private fun releases(server: ScriptedServer) =
        server.requests.filter { it.op == 'R' || it.op == 'G' }.map { it.token }.distinct().size

    @Test
    fun `acquires and releases`() = withBroker(ScriptedServer.friendly()) { broker, _ ->
        val ticket = broker.acquireSuspending("k", options)
        assertEquals(1, ticket.token())
        assertEquals(ReleaseOutcome.RELEASED, ticket.releaseSuspending())
        assertEquals(listOf("a", "b"), broker.acquireSetSuspending(listOf("b", "a"), options).keys())
    }

    @Test
    fun `withLock releases after success, failure and cancellation`() =
        withBroker(ScriptedServer.friendly()) { broker, server ->
            assertEquals(1, broker.withLock("k", options) { it.token() })
            assertThrows(IllegalStateException::class.java) {
                runBlocking { broker.withLock(listOf("a", "b"), options) { error("work failed") } }
            }
            runBlocking {
                val holding = ConcurrentLinkedQueue<Long>()
                val job = launch(start = CoroutineStart.UNDISPATCHED) {
                    broker.withLock("k", options) {
                        holding.add(it.token())
                        kotlinx.coroutines.awaitCancellation()
                    }
                }
                while (holding.isEmpty()) kotlinx.coroutines.yield()
                job.cancelAndJoin()
            }
            assertEquals(3, releases(server))
        }

    @Test
    fun `a cancelled coroutine releases its late grant`() {
        val late = ConcurrentLinkedQueue<ScriptedServer.Received>()
        val script = Consumer<ScriptedServer.Received> { request ->
            if (request.op == 'A') late.add(request) else request.peer.reply('R', request.requestId)
        }
        withBroker(script) { broker, server ->
            runBlocking {
                val job = launch(start = CoroutineStart.UNDISPATCHED) { broker.acquireSuspending("k", options) }
                while (late.isEmpty()) kotlinx.coroutines.yield()
                job.cancelAndJoin()
            }
            val request = late.remove()
            request.peer.grant(request, 77)
            ScriptedServer.until({ server.requests.any { it.token == 77L } }, "the release")
        }
    }

    @Test
    fun `a grant that comes just before the cancellation is released`() =
        withBroker(ScriptedServer.friendly()) { broker, server ->
            // Keeps what the coroutine does next, so that it is cancelled between the grant and its next step.
            val next = LinkedBlockingQueue<Runnable>()
            val dispatcher = Executor { next.add(it) }.asCoroutineDispatcher()
            val job = CoroutineScope(dispatcher).launch(start = CoroutineStart.UNDISPATCHED) {
                broker.withLock("k", options) { error("it was cancelled") }
            }
            val resumed = next.take()
            job.cancel()
            resumed.run()
            ScriptedServer.until({ releases(server) == 1 }, "the release")
            assertTrue(job.isCancelled)
        }

    @Test
    fun `a work that is cancelled while it waits for its turn never holds`() {
        val waiting = LinkedBlockingQueue<ScriptedServer.Received>()
        withBroker({ if (it.op == 'S') waiting.add(it) else it.peer.reply(it.op, it.requestId) }) { broker, server ->
            runBlocking {
                var ran = false
                val job = launch(Dispatchers.Default) { broker.withLock(listOf("a", "b"), options) { ran = true } }
                val request = waiting.take()
                job.cancelAndJoin()
                request.peer.grant(request, 9)
                ScriptedServer.until({ server.requests.any { it.op == 'G' && it.token == 9L } }, "the release")
                assertFalse(ran)
            }
        }
    }

    @Test
    fun `failures arrive as themselves`() =
        withBroker({ it.peer.reply('B', it.requestId) }) { broker, _ ->
            assertThrows(TicketingException.Busy::class.java) {
                runBlocking { broker.acquireSuspending("k", options) }
            }
            assertThrows(TicketingException.InvalidInput::class.java) { acquireOptions(1.seconds, 1500.milliseconds) }
        }

    @Test
    fun `many coroutines share a broker`() = withBroker(ScriptedServer.friendly()) { broker, server ->
        runBlocking {
            List(300) { async { broker.withLock("k$it", options) { ticket -> ticket.token() } } }.awaitAll()
        }
        assertEquals(300, releases(server))
    }
}
