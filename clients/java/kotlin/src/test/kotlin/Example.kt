import kotlin.time.Duration.Companion.seconds
import kotlinx.coroutines.runBlocking
import ticketing.Broker
import ticketing.BrokerOptions
import ticketing.kotlin.acquireOptions
import ticketing.kotlin.withLock

fun main() = runBlocking {
    Broker.connect(BrokerOptions.single("127.0.0.1:5225")).use { broker ->
        broker.withLock("order-1234", acquireOptions(wait = 5.seconds, lease = 30.seconds)) { ticket ->
            println("holding order-1234 with fencing token ${ticket.token().toULong()}")
        }
    }
}
