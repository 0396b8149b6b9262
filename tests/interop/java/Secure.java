import com.google.gson.JsonObject;
import java.lang.reflect.Field;
import org.apache.inlong.tubemq.client.config.TubeClientConfig;
import org.apache.inlong.tubemq.corebase.config.TLSConfig;

/**
 * User, secret and TLS of official clients. Their public setter takes a trust store alone, but connections open the key
 * store as well and fail without one, so all four values are put where the setter would put two.
 */
final class Secure {

    private Secure() {
    }

    static <C extends TubeClientConfig> C config(C config, JsonObject with) throws Exception {
        if (with.has("user")) {
            config.setAuthenticInfo(true, with.get("user").getAsString(), with.get("secret").getAsString());
        }
        if (!with.has("tls")) {
            return config;
        }
        JsonObject tls = with.getAsJsonObject("tls");
        String password = tls.get("password").getAsString();
        config.setTLSEnableInfo(tls.get("trust").getAsString(), password);
        Field field = TubeClientConfig.class.getDeclaredField("tlsConfig");
        field.setAccessible(true);
        TLSConfig values = (TLSConfig) field.get(config);
        values.setTlsTwoWayAuthEnable(tls.get("two_way").getAsBoolean());
        values.setTlsKeyStorePath(tls.get("keys").getAsString());
        values.setTlsKeyStorePassword(password);
        return config;
    }
}
